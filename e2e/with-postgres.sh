#!/bin/sh
# Runs a command with TEST_POSTGRES set to a throwaway PostgreSQL server, and
# stops the server afterwards whatever became of the command:
#
#	e2e/with-postgres.sh go test ./store/...
#
# A server that is already named by TEST_POSTGRES is used as it is.
set -eu

if [ -n "${TEST_POSTGRES:-}" ]; then
	exec "$@"
fi

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1 || true)
if [ -z "$bin" ] && command -v pg_ctl >/dev/null 2>&1; then
	bin=$(dirname "$(command -v pg_ctl)")
fi
if [ -z "$bin" ]; then
	echo "PostgreSQL is not installed: apt-get install postgresql, or set TEST_POSTGRES=postgres://…" >&2
	exit 1
fi

dir=$(mktemp -d)
# Below the ports that outgoing connections take, of which tests have many.
port=$((20000 + $$ % 12000))
# initdb refuses root, so as root the server belongs to the distribution's user.
if [ "$(id -u)" = 0 ]; then
	as="runuser -u postgres --"
	chown postgres "$dir"
else
	as=""
fi
chmod 700 "$dir"
cd_back=$(pwd)
stop() {
	cd /
	$as "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

cd "$dir"
$as "$bin/initdb" -D "$dir/data" -U postgres --auth=trust --no-sync -E UTF8 --locale=C >"$dir/initdb.log" 2>&1 || {
	cat "$dir/initdb.log" >&2
	exit 1
}
# Nothing here has to survive a power cut, so nothing waits for the disk.
$as "$bin/pg_ctl" -D "$dir/data" -l "$dir/data/server.log" -w start \
	-o "-p $port -k $dir -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200" >/dev/null || {
	cat "$dir/data/server.log" >&2
	exit 1
}
cd "$cd_back"
TEST_POSTGRES="postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable" "$@"
