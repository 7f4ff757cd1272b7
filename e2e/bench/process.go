//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one of the programs that take part, with its log in the run's folder.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func start(dir, name string, env []string, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// failure tells what a program said last.
func (p *process) failure(err error) error {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s: %w; its last lines:\n%s", p.name, err, strings.Join(lines[max(0, len(lines)-15):], "\n"))
}

// listening waits until a port answers.
func (p *process) listening(port int) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return p.failure(fmt.Errorf("it ended"))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return p.failure(err)
		}
	}
}

// family is a process and its children: nginx works in children.
func (p *process) family() []int {
	pids := []int{p.cmd.Process.Pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[0]))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for _, f := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// clockTicks is the unit of CPU times in /proc; Linux shows 100 a second everywhere.
const clockTicks = 100

// cpu is the processor time that a process has used so far, in all threads, in user
// space and in the kernel.
func (p *process) cpu() time.Duration {
	var sum time.Duration
	for _, pid := range p.family() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The name is in brackets and may hold anything; after it come fixed fields.
		_, after, _ := bytes.Cut(text, []byte(") "))
		fields := strings.Fields(string(after))
		if len(fields) < 13 {
			continue
		}
		for _, f := range fields[11:13] { // utime, stime
			n, _ := strconv.ParseInt(f, 10, 64)
			sum += time.Duration(n) * time.Second / clockTicks
		}
	}
	return sum
}

// memory is what a process holds now, in bytes: resident, and its share of it where
// pages are shared.
type memory struct{ rss, pss int64 }

func (p *process) memory() memory {
	var m memory
	for _, pid := range p.family() {
		f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 2 {
				continue
			}
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			switch fields[0] {
			case "Rss:":
				m.rss += n << 10
			case "Pss:":
				m.pss += n << 10
			}
		}
		f.Close()
	}
	return m
}

// ownCPU is the processor time of the load generator, which is this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
