"""What the image's parts come from, and the SPDX document that lists it."""
import dataclasses
import hashlib
import json
import pathlib
import re
import subprocess
import urllib.parse

SPDX_VERSION = "SPDX-2.3"


class Unknown(Exception):
    """A file that no package has."""


@dataclasses.dataclass(frozen=True, order=True)
class Package:
    name: str
    version: str
    url: str       # a package URL (purl)
    supplier: str
    stanza: str = ""  # in dpkg's database; empty for packages that are not Debian's


def dpkg(*arguments):
    return subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True, check=False)


def debian_packages(names):
    """Installed packages of Debian."""
    names = sorted(names)
    if not names:
        return set()  # dpkg would show all
    shown = dpkg("--status", *names)
    if shown.returncode != 0:
        raise Unknown(shown.stderr.strip().splitlines()[0])
    release = re.search(r'^VERSION_ID="?(\w+)', pathlib.Path("/etc/os-release").read_text(), flags=re.M)
    distribution = f"&distro=debian-{release.group(1)}" if release else ""
    found = set()
    for stanza in shown.stdout.strip().split("\n\n"):
        field = dict(re.findall(r"^([A-Z][A-Za-z-]*): (.*)$", stanza, flags=re.M))
        source = field.get("Source", field["Package"]).split(" ")[0]
        version = urllib.parse.quote(field["Version"], safe="~")
        found.add(Package(field["Package"], field["Version"],
                          f"pkg:deb/debian/{field['Package']}@{version}?arch={field['Architecture']}{distribution}&upstream={source}",
                          "Organization: Debian", stanza + "\n"))
    return found


def owners(files):
    """The packages that these files of this machine are from."""
    # dpkg knows a file by the name it was packed under, which for some is older than the merger of /lib into /usr/lib.
    names = {str(name): file for file in files
             for name in (file.resolve(), pathlib.Path(str(file.resolve()).removeprefix("/usr")))}
    listed = re.findall(r"(?m)^([^ :,]+)[^/]*: (/.*)$", dpkg("--search", *names).stdout)
    unknown = set(files) - {names[name] for _, name in listed}
    if unknown:
        raise Unknown(f"no package has {', '.join(map(str, sorted(unknown)))}")
    return debian_packages({package for package, _ in listed})


def cuda_packages(toolkit):
    """The packages of scripts/cuda_toolkit.py, from the lists it leaves: all of them, and that of each library by its file name."""
    versions = dict(line.split() for line in (toolkit / "versions.txt").read_text().splitlines() if " " in line)
    every = {name: Package(name, version, f"pkg:pypi/{name}@{version}", "Organization: NVIDIA") for name, version in versions.items()}
    origins = dict(line.split() for line in (toolkit / "origins.txt").read_text().splitlines())
    return set(every.values()), {library: every[name] for library, name in origins.items()}


def spdx(version, revision, created, contained, built_with):
    """The document as text: `contained` is in the image, of `built_with` only what the compiler took from headers."""
    def identifier(package):
        return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", package.name)

    def described(package):
        return {"SPDXID": identifier(package), "name": package.name, "versionInfo": package.version, "supplier": package.supplier,
                "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
                "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.url}]}

    contained, built_with = sorted(set(contained)), sorted(set(built_with) - set(contained))
    product = {"SPDXID": "SPDXRef-zerofleet", "name": "zerofleet", "versionInfo": version, "downloadLocation": "NOASSERTION",
               "sourceInfo": f"revision {revision}", "filesAnalyzed": False, "primaryPackagePurpose": "CONTAINER",
               "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}
    relationships = [("SPDXRef-DOCUMENT", "DESCRIBES", product["SPDXID"])]
    relationships += [(product["SPDXID"], "CONTAINS", identifier(each)) for each in contained]
    relationships += [(identifier(each), "BUILD_DEPENDENCY_OF", product["SPDXID"]) for each in built_with]
    packages = [product, *map(described, contained + built_with)]
    digest = hashlib.sha256(json.dumps([created, packages]).encode()).hexdigest()[:32]
    return json.dumps({
        "spdxVersion": SPDX_VERSION, "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"zerofleet-{version}",
        "documentNamespace": f"https://zerofleet.example/spdx/zerofleet-{version}-{digest}",
        "creationInfo": {"created": created, "creators": ["Organization: The Zerofleet authors", "Tool: docker/rootfs.py"]},
        "packages": packages,
        "relationships": [{"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": other}
                          for element, kind, other in relationships]}, indent=1) + "\n"
