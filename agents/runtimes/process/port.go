package process

import (
	"fmt"
	"net"
	"strconv"
)

// listenHost is where engines listen: the address that the gateway uses when it is
// one of this machine's, and otherwise, behind a router that translates it, all.
func listenHost(advertised string) string {
	l, err := net.Listen("tcp", net.JoinHostPort(advertised, "0"))
	if err != nil {
		return "0.0.0.0"
	}
	_ = l.Close()
	return advertised
}

// choosePort finds a free port for a replica: the one it had when it can, so that
// its address stays.
func (rt *Runtime) choosePort(id, host string, had int) (int, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.freePort(id)
	// Two engines that start in the same moment must not be given one port.
	for _, try := range []int{had, 0, 0, 0, 0, 0} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(try)))
		if err != nil {
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
		if _, taken := rt.ports[port]; !taken {
			rt.ports[port] = id
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port was found on %s", host)
}

func (rt *Runtime) holdPort(id string, port int) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.ports[port] = id
}

// freePort gives a replica's port back; rt.mu is held.
func (rt *Runtime) freePort(id string) {
	for port, of := range rt.ports {
		if of == id {
			delete(rt.ports, port)
		}
	}
}
