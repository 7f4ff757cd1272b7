package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// mark is the marker's value: the replica, and the folder of the agent that has it.
func (r *replica) mark() string { return r.id + "@" + r.dir }

// marked lists the processes that have a replica's mark in their environment.
func marked(mark string) []int {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	want := []byte(marker + "=" + mark)
	var out []int
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // another user's, or gone
		}
		if !slices.ContainsFunc(bytes.Split(b, []byte{0}), func(v []byte) bool { return bytes.Equal(v, want) }) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// orphan finds an engine that was started and not recorded: of the replica's
// processes that lead a group, the oldest.
func orphan(mark string) (pid int, ticks uint64) {
	for _, n := range marked(mark) {
		if s, err := look(n); err == nil && s.group == n && (pid == 0 || s.ticks < ticks) {
			pid, ticks = n, s.ticks
		}
	}
	return pid, ticks
}

// sweep kills what an engine that has ended left behind: workers would hold the
// GPU's memory. Most are in its process group; some have one of their own.
func sweep(group int, mark string) {
	endGroup(group)
	for _, pid := range marked(mark) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func endGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
