package process

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

const (
	maxLog   = 16 << 20 // bytes of an engine's log before it is cut
	tailSize = 32 << 10 // bytes that its last lines are looked for in
	maxLines = 20
	maxLine  = 500 // bytes
)

// logFile is an engine's output. The engine holds the file open, so it cannot be
// moved away: it is copied and emptied. It is opened for appending, and what comes
// after goes to the new end.
type logFile struct{ path string }

// open returns the file to write to, and where what is written now begins.
func (l logFile) open() (*os.File, int64, error) {
	if err := l.rotate(maxLog / 4); err != nil {
		return nil, 0, err
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// rotate cuts the file when it is larger than most; the end of it is kept beside it.
func (l logFile) rotate(most int64) error {
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && info.Size() <= most) {
		return nil
	}
	if err != nil {
		return err
	}
	in, err := os.OpenFile(l.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(max(0, info.Size()-maxLog/2), io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(l.path+".1", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), in.Truncate(0))
}

var (
	// Colours and cursor movements of progress bars.
	escapes  = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")
	progress = regexp.MustCompile(`(?i)(download|fetch|load|captur|compil|quantiz|warm)[^%]{0,100}\b(\d{1,3})\s?%`)
)

// tail returns the last lines that were written after from, without the secrets.
func (l logFile) tail(from int64, secrets []string) []string {
	f, err := os.Open(l.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	if from > info.Size() {
		from = 0 // it was cut since
	}
	start := max(from, info.Size()-tailSize)
	b := make([]byte, info.Size()-start)
	n, err := f.ReadAt(b, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	text := escapes.ReplaceAllString(strings.ToValidUTF8(string(b[:n]), "?"), "")
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "[hidden]")
	}
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		// A progress bar writes over itself; only what is to be seen at last counts.
		line = strings.TrimRight(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		line = strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' {
				return -1
			}
			return r
		}, line)
		if line = strings.TrimRight(line, " \t"); line != "" {
			lines = append(lines, clip(line))
		}
	}
	if start > from && len(lines) > 0 {
		lines = lines[1:] // begins in the middle
	}
	return lines[max(0, len(lines)-maxLines):]
}

func clip(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return strings.ToValidUTF8(line[:maxLine], "") + " …"
}

// progressIn is the newest line that says how far long work is.
func progressIn(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if progress.MatchString(lines[i]) {
			return strings.TrimSpace(lines[i])
		}
	}
	return ""
}

var secretName = regexp.MustCompile(`(?i)(token|key|secret|passw|credential)`)

// secretsIn are the values that must not be shown, of variables whose name says so.
func secretsIn(env map[string]string) []string {
	var out []string
	add := func(name, value string) {
		if len(value) >= 6 && secretName.MatchString(name) {
			out = append(out, value)
		}
	}
	for name, value := range env {
		add(name, value)
	}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		add(name, value)
	}
	return out
}
