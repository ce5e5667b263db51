"""What a release says about its packages: the crates in them (CycloneDX), how they were built (in-toto, SLSA), and checksums.

It must not change the packages. Nothing is signed: whoever publishes a release signs its provenance.
"""

import hashlib
import json
import subprocess
from pathlib import Path

from platforms import HOME_PAGE

ROOT = Path(__file__).resolve().parent.parent


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def digest(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def commit():
    """The commit of this tree, or None without a repository, as in an unpacked archive of the source."""
    try:
        return output("git", "rev-parse", "HEAD")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None


def sbom(version, platforms, out):
    """The crates that the programs are built from, for any of the platforms, as CycloneDX."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    for platform in platforms:
        command += ["--filter-platform", platform.target]
    metadata = json.loads(output(*command))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(id for id, package in packages.items() if package["name"] == "taskbridge")
    found, queue = set(), [root]
    while queue:
        id = queue.pop()
        if id in found:
            continue
        found.add(id)
        for dependency in nodes[id]["deps"]:
            # Not those of tests. Those of build scripts make the program, so they count.
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                queue.append(dependency["pkg"])
    components = []
    for package in sorted((packages[id] for id in found - {root}), key=lambda each: (each["name"], each["version"])):
        component = {"type": "library", "name": package["name"], "version": package["version"]}
        if package["source"]:
            component["purl"] = f"pkg:cargo/{package['name']}@{package['version']}"
        if package["license"]:
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        components.append(component)
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "application", "name": "taskbridge", "version": version}},
        "components": components,
    }
    (out / f"taskbridge-{version}.cdx.json").write_text(json.dumps(document, indent=1) + "\n")


def provenance(version, platforms, is_release, out):
    """A statement of in-toto with SLSA's provenance: which files, from which commit, lock files and compilers.

    The format: https://slsa.dev/spec/v1.0/provenance
    """
    subjects = [{"name": file.name, "digest": {"sha256": digest(file)}} for file in sorted(out.iterdir())]
    locks = ("Cargo.lock", "release/tools/build.txt", "release/tools/package-lock.json")
    materials = [{"uri": name, "digest": {"sha256": digest(ROOT / name)}} for name in locks]
    source = commit()
    if source:
        materials.append({"uri": f"git+{HOME_PAGE}", "digest": {"gitCommit": source}})
    changed = not source or bool(output("git", "status", "--porcelain", "--untracked-files=no"))
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{HOME_PAGE}/blob/main/release/run",
                "externalParameters": {"version": version, "targets": [each.target for each in platforms]},
                # A tree with changes, or a program from elsewhere, cannot be built again from the commit.
                "internalParameters": {"profile": "dist" if is_release else "given program", "changedTree": changed},
                "resolvedDependencies": materials,
            },
            "runDetails": {
                "builder": {"id": "local", "version": {"rustc": output("rustc", "--version")}},
                "metadata": {"invocationId": f"release-{version}"},
            },
        },
    }
    (out / f"taskbridge-{version}.provenance.json").write_text(json.dumps(statement, indent=1) + "\n")


def checksums(out):
    sums = "".join(f"{digest(file)}  {file.name}\n" for file in sorted(out.iterdir()))
    (out / "SHA256SUMS").write_text(sums)
