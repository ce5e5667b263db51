"""The packages of one program: archive, wheel, npm packages, Debian package, desktop bundle and Homebrew formula.

The same input gives the same bytes, except in those that npm, dpkg-deb and mcpb write. It must not build programs.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from platforms import HOME_PAGE

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = "Durable MCP tasks over the workflow engines you already run"
LICENSE = "Apache-2.0 OR MIT"
TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "1577836800"))  # 2020: any fixed time
SHELLS = {"bash": "bash-completion/completions/taskbridge", "zsh": "zsh/vendor-completions/_taskbridge",
          "fish": "fish/vendor_completions.d/taskbridge.fish"}


def shared_files(program):
    """The files of an installation below `usr`, except the program: path to (content, mode).

    `program` must run on this machine: it writes its own manual pages and completions.
    """
    files = {}
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


def write_tree(folder, files):
    for path, (content, mode) in files.items():
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(mode)
    for entry in [Path(folder), *Path(folder).rglob("*")]:
        if entry.is_dir():
            entry.chmod(0o755)


def archive(version, platform, files, out):
    name = f"taskbridge-{version}-{platform.name}-linux"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode, entry.mtime = len(content), mode, TIME
            tar.addfile(entry, io.BytesIO(content))
    (out / f"{name}.tar.gz").write_bytes(gzip.compress(buffer.getvalue(), 6, mtime=TIME))


def wheel(version, platform, files, out):
    tag = f"py3-none-{'.'.join(platform.wheel)}"
    info = f"taskbridge-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: taskbridge\nVersion: {version}\nSummary: {SUMMARY}\nLicense: {LICENSE}\n"
    tags = "".join(f"Tag: py3-none-{each}\n" for each in platform.wheel)
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


def npm_package(package, files, out):
    package = {**package, "description": SUMMARY, "license": f"({LICENSE})", "files": ["bin"]}
    with tempfile.TemporaryDirectory() as folder:
        write_tree(folder, {"package.json": (json.dumps(package, indent=2).encode(), 0o644), **files})
        subprocess.run(["npm", "pack", "--silent", "--pack-destination", out], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)


def npm_program(version, platform, files, out):
    package = {"name": f"taskbridge-{platform.npm}", "version": version, "os": ["linux"], "cpu": [platform.npm_cpu]}
    npm_package(package, {"bin/taskbridge": files["bin/taskbridge"]}, out)


def npm_launcher(version, platforms, out):
    package = {
        "name": "taskbridge", "version": version, "bin": {"taskbridge": "bin/taskbridge.js"},
        "optionalDependencies": {f"taskbridge-{each.npm}": version for each in platforms},
    }
    npm_package(package, {"bin/taskbridge.js": (LAUNCHER.encode(), 0o755)}, out)


def debian(version, platform, files, out):
    copyright_text = f"Licensed under {LICENSE}: see LICENSE-APACHE and LICENSE-MIT in this folder.\n"
    size = sum(len(content) for content, _ in files.values()) // 1024 + 1
    control = (
        f"Package: taskbridge\nVersion: {version}\nArchitecture: {platform.debian}\nMaintainer: taskbridge contributors\n"
        f"Installed-Size: {size}\nSection: net\nPriority: optional\nRecommends: ca-certificates\nDescription: {SUMMARY}\n"
        " An MCP server that runs tool calls as durable tasks in a workflow engine.\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        write_tree(folder, {
            **{f"usr/{path}": file for path, file in files.items()},
            "usr/share/doc/taskbridge/copyright": (copyright_text.encode(), 0o644),
            "DEBIAN/control": (control.encode(), 0o644),
        })
        package = out / f"taskbridge_{version}_{platform.debian}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", folder, package], check=True,
                       stdout=subprocess.DEVNULL)


def bundle(version, platform, files, tools, out):
    """The bundle for desktop hosts. `mcpb` checks the manifest against its schema before it packs."""
    manifest = {
        "manifest_version": "0.3",
        "name": "taskbridge",
        "display_name": "taskbridge",
        "version": version,
        "description": SUMMARY,
        "long_description": "Choose a config that names your engine and the tools. Without one of your own, start with "
                            "`local.toml` in the folder of this extension: it measures how much space a folder takes.",
        "author": {"name": "taskbridge contributors"},
        "homepage": HOME_PAGE,
        "license": LICENSE,
        "server": {
            "type": "binary",
            "entry_point": "server/taskbridge",
            "mcp_config": {
                "command": "${__dirname}/server/taskbridge",
                "args": ["--stdio", "--config", "${user_config.config}"],
            },
        },
        "user_config": {
            "config": {
                "type": "file",
                "title": "Config",
                "description": "The file taskbridge.toml with your engine and tools. `taskbridge init` writes one.",
                "required": True,
            },
        },
        "tools_generated": True,
        "compatibility": {"platforms": ["linux"]},
    }
    with tempfile.TemporaryDirectory() as folder:
        write_tree(folder, {
            "manifest.json": (json.dumps(manifest, indent=2).encode(), 0o644),
            "server/taskbridge": files["bin/taskbridge"],
            "local.toml": ((ROOT / "examples/one-file/local.toml").read_bytes(), 0o644),
            **{name: files[f"share/doc/taskbridge/{name}"] for name in ("LICENSE-APACHE", "LICENSE-MIT")},
        })
        name = f"taskbridge-{version}-{platform.name}-linux.mcpb"
        subprocess.run([tools / "node_modules/.bin/mcpb", "pack", folder, out / name], check=True,
                       stdout=subprocess.DEVNULL)


def formula(version, platforms, out):
    """The formula of Homebrew on Linux. It names the archives by the address that a release has, and their digests."""
    blocks = ""
    for platform in platforms:
        name = f"taskbridge-{version}-{platform.name}-linux.tar.gz"
        digest = hashlib.sha256((out / name).read_bytes()).hexdigest()
        blocks += (f'\n  on_{platform.homebrew} do\n    url "{HOME_PAGE}/releases/download/v{version}/{name}"\n'
                   f'    sha256 "{digest}"\n  end\n')
    (out / "taskbridge.rb").write_text(f'''\
class Taskbridge < Formula
  desc "{SUMMARY}"
  homepage "{HOME_PAGE}"
  version "{version}"
  license any_of: ["Apache-2.0", "MIT"]

  depends_on :linux
{blocks}
  def install
    bin.install "bin/taskbridge"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/taskbridge"
    zsh_completion.install "share/zsh/vendor-completions/_taskbridge"
    fish_completion.install "share/fish/vendor_completions.d/taskbridge.fish"
  end

  test do
    assert_equal "taskbridge #{{version}}", shell_output("#{{bin}}/taskbridge --version").strip
  end
end
''')
