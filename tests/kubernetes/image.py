"""Archives of two images for the cluster, without a registry: the product, from the installed bundle and this machine's glibc,
and the process that holds a pod's namespaces.
"""
import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
import tempfile

PAUSE = "#include <unistd.h>\n#include <signal.h>\nstatic void end(int s) { _exit(s != SIGTERM); }\n" \
        "int main() { signal(SIGTERM, end); signal(SIGCHLD, SIG_IGN); for (;;) pause(); }\n"


def archive(path, name, config, fill):
    """A docker archive of one layer, which `fill` writes."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        fill(tar)
    layer = layer.getvalue()
    image = json.dumps({"architecture": "amd64", "os": "linux", "config": config, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for file, data in (("config.json", image), ("layer.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def pause(path, name):
    with tempfile.TemporaryDirectory() as work:
        program = pathlib.Path(work) / "pause"
        subprocess.run(["cc", "-static", "-Os", "-x", "c", "-", "-o", str(program)], input=PAUSE, text=True, check=True)
        archive(path, name, {"Entrypoint": ["/pause"], "User": "65535:65535"}, lambda tar: tar.add(program, "pause"))


def product(path, name, bundle):
    """Debian's merged /usr, with nothing in it but glibc's libraries."""
    listed = subprocess.run(["dpkg", "-L", "libc6"], capture_output=True, text=True, check=True).stdout.split()
    glibc = [pathlib.Path(each) for each in listed if ".so" in each and pathlib.Path(each).is_file()]

    def fill(tar):
        for folder in ("tmp", "proc", "dev", "sys", "etc", "usr/lib", "usr/lib64"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for link, target in (("lib", "usr/lib"), ("lib64", "usr/lib64")):
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for file in glibc:
            place = str(file).lstrip("/")
            tar.add(file.resolve(), place if place.startswith("usr/") else "usr/" + place)
        tar.add(bundle, "opt/zerofleet")
    archive(path, name, {"Entrypoint": ["/opt/zerofleet/bin/zerofleet"], "User": "65532:65532", "WorkingDir": "/tmp",
                         "Env": ["PATH=/opt/zerofleet/bin:/usr/bin:/bin"]}, fill)
