//go:build linux

package main

import (
	"fmt"
	"net"
	"syscall"
	"time"
)

// poller waits for many sockets in one thread. The engine and the load generator
// share two cores with what they measure, so neither can afford a goroutine, a
// timer and a scheduler for each connection.
type poller struct {
	fd   int
	list [512]syscall.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) add(fd int) error {
	return syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP, Fd: int32(fd)})
}

// wantWrite says whether to hear of room for writing too.
func (p *poller) wantWrite(fd int, on bool) error {
	events := uint32(syscall.EPOLLIN | syscall.EPOLLRDHUP)
	if on {
		events |= syscall.EPOLLOUT
	}
	return syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_MOD, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
}

// wait returns the sockets with news. A negative patience waits for ever; the
// kernel counts in milliseconds.
func (p *poller) wait(patience time.Duration) ([]syscall.EpollEvent, error) {
	ms := -1
	if patience >= 0 {
		ms = int((patience + time.Millisecond - 1) / time.Millisecond)
	}
	n, err := syscall.EpollWait(p.fd, p.list[:], ms)
	if err == syscall.EINTR {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return p.list[:n], nil
}

func (p *poller) close() { _ = syscall.Close(p.fd) }

// dial opens a connection to a port of this machine. It blocks until it is open and
// never afterwards.
func dial(port int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		_ = syscall.Close(fd)
		return -1, fmt.Errorf("connect to port %d: %w", port, err)
	}
	if err := ready(fd); err != nil {
		_ = syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

func ready(fd int) error {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return err
	}
	return syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
}

// freePort is a port that nobody listened on a moment ago.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}
