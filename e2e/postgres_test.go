package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// newDatabase makes an empty PostgreSQL database for one test.
func newDatabase(t *testing.T) string {
	t.Helper()
	server := os.Getenv("TEST_POSTGRES")
	if server == "" {
		t.Skip("TEST_POSTGRES is not set; e2e/with-postgres.sh sets it")
	}
	return databaseOn(t, server)
}

func databaseOn(t *testing.T, server string) string {
	t.Helper()
	name := "e2e_" + strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "_")) + fmt.Sprint(os.Getpid())
	query(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { query(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return regexp.MustCompile(`/[^/?]*(\?|$)`).ReplaceAllString(server, "/"+name+"$1")
}

// query runs a statement and returns what it answers.
func query(t *testing.T, server, sql string) string {
	t.Helper()
	cmd := exec.Command("psql", server, "-v", "ON_ERROR_STOP=1", "-At", "-c", sql)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", sql, err, stderr.String())
	}
	return string(out)
}

// databaseServer is a PostgreSQL server of a test's own, which it may stop.
type databaseServer struct {
	t       *testing.T
	address string
	folder  string // of its data
	control string // pg_ctl
}

// newDatabaseServer starts one with the script that makes the server of all other tests.
func newDatabaseServer(t *testing.T) *databaseServer {
	t.Helper()
	control := postgresControl()
	if control == "" {
		t.Skip("this test stops a PostgreSQL server of its own, and PostgreSQL is not installed here")
	}
	// The server lives as long as the script's command, which waits for the end of its input.
	script := exec.Command("./with-postgres.sh", "sh", "-c", `echo "$TEST_POSTGRES"; cat >/dev/null`)
	script.Env = append(os.Environ(), "TEST_POSTGRES=")
	script.Stderr = os.Stderr
	in, err := script.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := script.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = script.Wait() // stopping a server that is stopped is no failure
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("start a PostgreSQL server: %v", err)
	}
	s := &databaseServer{t: t, address: strings.TrimSpace(line), control: control}
	s.folder = strings.TrimSpace(query(t, s.address, "SHOW data_directory"))
	return s
}

// postgresControl finds pg_ctl as with-postgres.sh does.
func postgresControl() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl") // the pattern is well formed
	if len(found) > 0 {
		slices.Sort(found)
		return found[len(found)-1]
	}
	path, err := exec.LookPath("pg_ctl")
	if err != nil {
		return ""
	}
	return path
}

// stop ends the server as a crash does: nothing that is open is finished.
func (s *databaseServer) stop() { s.run("stop", "-m", "immediate", "-w") }

// start brings it back with the options that it had; it recovers what was committed.
func (s *databaseServer) start() {
	s.run("restart", "-w", "-l", filepath.Join(s.folder, "server.log"))
}

func (s *databaseServer) run(what string, more ...string) {
	s.t.Helper()
	args := append([]string{s.control, what, "-D", s.folder}, more...)
	if os.Getuid() == 0 {
		args = append([]string{"runuser", "-u", "postgres", "--"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	// Not a pipe: the server keeps what it inherits open for as long as it runs.
	if err := cmd.Run(); err != nil {
		s.t.Errorf("%s the database server: %v", what, err)
	}
}

// path is a way to a server that a test can block.
type path struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	open     map[net.Conn]bool
	way      chan struct{} // closed: bytes pass
	cut      bool
}

// newPath leads to a database and returns the database's address through it.
func newPath(t *testing.T, database string) (*path, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	p := &path{to: u.Host, open: map[net.Conn]bool{}, way: make(chan struct{})}
	close(p.way)
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go p.serve()
	t.Cleanup(func() { p.cutOff(); p.listener.Close() })
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

func (p *path) serve() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse := p.cut
		p.open[in] = true
		p.mu.Unlock()
		if refuse {
			p.drop(in)
			continue
		}
		go p.carry(in)
	}
}

func (p *path) carry(in net.Conn) {
	defer p.drop(in)
	out, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.open[out] = true
	p.mu.Unlock()
	defer p.drop(out)
	go func() {
		defer p.drop(in)
		p.copy(in, out)
	}()
	p.copy(out, in)
}

// copy moves bytes while they may pass.
func (p *path) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		way := p.way
		p.mu.Unlock()
		<-way
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *path) drop(c net.Conn) {
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		return // it was broken already, which is as good
	}
}

// hold lets nothing through and says nothing: a machine that froze, a cable pulled.
func (p *path) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.way = make(chan struct{})
}

// cutOff breaks what is open and refuses what comes.
func (p *path) cutOff() {
	p.mu.Lock()
	p.cut = true
	conns := p.open
	p.open = map[net.Conn]bool{}
	release(p.way)
	p.mu.Unlock()
	for c := range conns {
		_ = c.Close() // nothing is expected of it any more
	}
}

// restore lets everything through again.
func (p *path) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	release(p.way)
}

func release(way chan struct{}) {
	select {
	case <-way:
	default:
		close(way)
	}
}
