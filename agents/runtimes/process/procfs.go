package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// marker is the variable that names the replica in its engine's environment. It
// finds an engine whose agent was killed between starting and recording it.
const marker = "TOKENFACTORY_REPLICA"

// seen is what /proc says of a process.
type seen struct {
	state byte
	group int
	ticks uint64 // since boot, when it was started
}

// look reads /proc/PID/stat. A process that has ended and waits for its parent is gone.
func look(pid int) (seen, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return seen{}, err
	}
	s, err := parseStat(string(b))
	if err == nil && (s.state == 'Z' || s.state == 'X') {
		err = os.ErrProcessDone
	}
	return s, err
}

// parseStat reads fields 3, 5 and 22. The second is the program's name in brackets,
// which may have blanks and brackets in it.
func parseStat(line string) (seen, error) {
	i := strings.LastIndexByte(line, ')')
	if i < 0 {
		return seen{}, errors.New("not the stat line of a process")
	}
	f := strings.Fields(line[i+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return seen{}, errors.New("not the stat line of a process")
	}
	group, err := strconv.Atoi(f[2])
	if err != nil {
		return seen{}, fmt.Errorf("process group: %w", err)
	}
	ticks, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return seen{}, fmt.Errorf("start time: %w", err)
	}
	return seen{state: f[0][0], group: group, ticks: ticks}, nil
}

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// alive reports whether a record's process still runs, and not another one that
// was given its number.
func (rec record) alive() bool {
	if rec.PID <= 0 || rec.Boot != bootID() {
		return false
	}
	s, err := look(rec.PID)
	return err == nil && s.ticks == rec.StartTicks
}

// orphan finds a replica's engine by its environment: the leader of its process
// group, and of several the oldest.
func orphan(id string) (pid int, ticks uint64) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return 0, 0
	}
	want := []byte(marker + "=" + id)
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // another user's, or gone
		}
		found := false
		for _, v := range bytes.Split(b, []byte{0}) {
			found = found || bytes.Equal(v, want)
		}
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if !found || err != nil {
			continue
		}
		if s, err := look(n); err == nil && s.group == n && (pid == 0 || s.ticks < ticks) {
			pid, ticks = n, s.ticks
		}
	}
	return pid, ticks
}
