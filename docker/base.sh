#!/bin/sh
# Makes Debian 12 as its slim image has it, where no registry can be reached: `make image BASE=debootstrap`.
#
#   docker/base.sh ARCHIVE        a tar archive of its root; needs root and debootstrap
set -eu

archive=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
debootstrap --variant=minbase bookworm "$root"
# Where this machine's Debian has its packages from, security updates too.
if [ -e /etc/apt/sources.list.d/debian.sources ]; then
  cp /etc/apt/sources.list.d/debian.sources "$root/etc/apt/sources.list.d/"
  rm -f "$root/etc/apt/sources.list"
else
  cp /etc/apt/sources.list "$root/etc/apt/"
fi
# Whom else it trusts, where a proxy is between it and the packages that come by HTTPS.
if [ -d /usr/local/share/ca-certificates ]; then
  mkdir -p "$root/usr/local/share"
  cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
fi
# Nothing of what only people read.
find "$root/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$root"/usr/share/man/* "$root"/usr/share/info/* "$root"/usr/share/lintian "$root"/usr/share/locale/* \
  "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/*
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
END
tar -C "$root" --one-file-system -cf "$archive" .
