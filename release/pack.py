#!/usr/bin/env python3
"""Packs a program for a release: archive, wheel, npm packages, Debian package, SBOM and checksums.

    release/pack.py VERSION PROGRAM FOLDER

The same input gives the same bytes, except in the npm and Debian packages, which their own tools write. It must not
build anything.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = "Durable MCP tasks over the workflow engines you already run"
LICENSE = "Apache-2.0 OR MIT"
TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "1577836800"))  # 2020: any fixed time
SHELLS = {"bash": "bash-completion/completions/taskbridge", "zsh": "zsh/vendor-completions/_taskbridge",
          "fish": "fish/vendor_completions.d/taskbridge.fish"}


def tree(program):
    """The files of an installation, below `usr`: path to (content, mode)."""
    files = {"bin/taskbridge": (program.read_bytes(), 0o755)}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "man", folder], check=True)
        for page in sorted(Path(folder).iterdir()):
            files[f"share/man/man1/{page.name}.gz"] = (gzip.compress(page.read_bytes(), mtime=TIME), 0o644)
    for shell, path in SHELLS.items():
        script = subprocess.run([program, "completions", shell], check=True, capture_output=True).stdout
        files[f"share/{path}"] = (script, 0o644)
    for name in ("README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"):
        files[f"share/doc/taskbridge/{name}"] = ((ROOT / name).read_bytes(), 0o644)
    return files


def archive(version, files, out):
    name = f"taskbridge-{version}-x86_64-linux"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode, entry.mtime = len(content), mode, TIME
            tar.addfile(entry, io.BytesIO(content))
    (out / f"{name}.tar.gz").write_bytes(gzip.compress(buffer.getvalue(), mtime=TIME))


def wheel(version, files, out):
    tag = "py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64"
    info = f"taskbridge-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: taskbridge\nVersion: {version}\nSummary: {SUMMARY}\nLicense: {LICENSE}\n"
    tags = "".join(f"Tag: py3-none-{platform}\n" for platform in tag.removeprefix("py3-none-").split("."))
    content = {
        f"taskbridge-{version}.data/scripts/taskbridge": files["bin/taskbridge"],
        f"{info}/METADATA": (metadata.encode(), 0o644),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: taskbridge\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644),
    }
    record = ""
    for path, (data, _) in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    content[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    with zipfile.ZipFile(out / f"taskbridge-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as file:
        for path, (data, mode) in content.items():
            entry = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, data)


LAUNCHER = """\
#!/usr/bin/env node
// Starts the program of this platform, which is in a package of its own.
const { spawn } = require('node:child_process')
const name = `taskbridge-${process.platform}-${process.arch}`
let program
try {
  program = require.resolve(`${name}/bin/taskbridge`)
} catch {
  console.error(`taskbridge: there is no program for ${process.platform} on ${process.arch} (package ${name})`)
  process.exit(1)
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' })
child.on('error', (error) => { throw error })
// A terminal sends Ctrl-C to both processes; other signals reach only this one.
process.on('SIGINT', () => {})
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 143)))
"""


def npm(version, files, out):
    common = {"version": version, "description": SUMMARY, "license": f"({LICENSE})"}
    platform = {"name": "taskbridge-linux-x64", **common, "os": ["linux"], "cpu": ["x64"], "files": ["bin"]}
    main = {
        "name": "taskbridge", **common, "bin": {"taskbridge": "bin/taskbridge.js"}, "files": ["bin"],
        "optionalDependencies": {platform["name"]: version},
    }
    for package, name, content in ((platform, "taskbridge", files["bin/taskbridge"][0]), (main, "taskbridge.js", LAUNCHER.encode())):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "bin").mkdir()
            (Path(folder) / "package.json").write_text(json.dumps(package, indent=2))
            (Path(folder) / "bin" / name).write_bytes(content)
            (Path(folder) / "bin" / name).chmod(0o755)
            subprocess.run(["npm", "pack", "--silent", "--pack-destination", out], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)


def debian(version, files, out):
    with tempfile.TemporaryDirectory() as folder:
        for path, (content, mode) in files.items():
            file = Path(folder) / "usr" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(mode)
        copyright_file = Path(folder) / "usr/share/doc/taskbridge/copyright"
        copyright_file.write_text(f"Licensed under {LICENSE}: see LICENSE-APACHE and LICENSE-MIT in this folder.\n")
        size = sum(len(content) for content, _ in files.values()) // 1024 + 1
        control = Path(folder) / "DEBIAN/control"
        control.parent.mkdir()
        control.write_text(
            f"Package: taskbridge\nVersion: {version}\nArchitecture: amd64\nMaintainer: taskbridge contributors\n"
            f"Installed-Size: {size}\nSection: net\nPriority: optional\nDescription: {SUMMARY}\n"
            " An MCP server that runs tool calls as durable tasks in a workflow engine.\n"
        )
        for parent in Path(folder).rglob("*"):
            if parent.is_dir():
                parent.chmod(0o755)
        Path(folder).chmod(0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", folder, out / f"taskbridge_{version}_amd64.deb"],
                       check=True, stdout=subprocess.DEVNULL)


def sbom(version, out):
    """The crates that the program is built from, as CycloneDX."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-musl"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
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


def main():
    version, program, out = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if said != f"taskbridge {version}":
        print(f"release/pack.py: {program} is `{said}`, not version {version}", file=sys.stderr)
        return 1
    out.mkdir(parents=True)
    files = tree(program)
    archive(version, files, out)
    wheel(version, files, out)
    npm(version, files, out)
    debian(version, files, out)
    sbom(version, out)
    packages = sorted(out.iterdir())
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in packages)
    (out / "SHA256SUMS").write_text(sums)
    return 0


if __name__ == "__main__":
    sys.exit(main())
