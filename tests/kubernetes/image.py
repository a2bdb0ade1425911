"""Archives of two images for the cluster, without a registry: the product, from the installed bundle, and the process that
holds a pod's namespaces.
"""
import hashlib
import io
import json
import pathlib
import subprocess
import tarfile
import tempfile

ROOTFS = pathlib.Path(__file__).resolve().parent.parent.parent / "docker" / "rootfs.py"
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
    """The product's image as docker/Dockerfile makes it of a bundle."""
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work) / "root"
        subprocess.run([str(ROOTFS), str(bundle), str(root)], check=True)
        archive(path, name, {"Entrypoint": ["/opt/zerofleet/bin/zerofleet"], "User": "65532:65532", "WorkingDir": "/var/lib/zerofleet",
                             "Env": ["PATH=/opt/zerofleet/bin"]}, lambda tar: tar.add(root, "."))
