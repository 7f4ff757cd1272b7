//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// nginx is configured as one would before an engine: nothing buffered, connections
// to the engine kept, prompts held in memory.
const nginxConf = `worker_processes 2;
worker_rlimit_nofile 16384;
daemon off;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx.log error;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_body_buffer_size 1m;
  client_max_body_size 64m;
  keepalive_requests 1000000;
  upstream engine {
    server 127.0.0.1:%[3]d;
    keepalive 2048;
    keepalive_requests 1000000;
  }
  server {
    listen 127.0.0.1:%[2]d backlog=4096 reuseport;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 300s;
    }
  }
}
`

// startNginx starts nginx in a folder, or says that there is none.
func startNginx(dir string, port, engine int) (p *process, installed bool, err error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return nil, false, nil
	}
	folder := filepath.Join(dir, "nginx")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, true, err
	}
	// Its workers give up root, and still have to get at their folders.
	if err := os.Chmod(folder, 0o777); err != nil {
		return nil, true, err
	}
	conf := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, folder, port, engine), 0o644); err != nil {
		return nil, true, err
	}
	p, err = start(dir, "nginx", nil, program, "-e", filepath.Join(folder, "nginx.log"), "-p", folder, "-c", conf)
	return p, true, err
}
