#!/bin/sh
# Brings what the tests need beside Go, Node, git and make: Chromium and
# PostgreSQL from the distribution. Where it may not install, it says exactly
# what is missing and stops.
set -eu

missing=""
for tool in go node npm git make; do
	command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	echo "These must be installed first:$missing" >&2
	exit 1
fi

packages=""
if [ -z "${CHROMIUM:-}" ] && ! command -v chromium >/dev/null 2>&1 && ! command -v google-chrome >/dev/null 2>&1; then
	packages="$packages chromium"
fi
if [ -z "${TEST_POSTGRES:-}" ] && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && ! command -v initdb >/dev/null 2>&1; then
	packages="$packages postgresql"
fi
# The race detector links with the C compiler.
command -v gcc >/dev/null 2>&1 || packages="$packages gcc libc6-dev"
[ -z "$packages" ] && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "The tests need these packages of your distribution:$packages" >&2
	echo "Install them (for example: sudo apt-get install$packages) and run this again." >&2
	exit 1
fi
echo "Installing$packages"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# The server that the package would start by itself is of no use here.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
# shellcheck disable=SC2086 # a list of words
apt-get install -y -qq --no-install-recommends $packages >/dev/null
