"""The platforms of a release, what each packaging format calls them, and where it is published. It must not read or write files."""

from dataclasses import dataclass

# Where a release is published. OWNER is replaced in the tree that is released: see CONTRIBUTING.md.
HOME_PAGE = "https://github.com/OWNER/taskbridge"


@dataclass(frozen=True)
class Platform:
    """One architecture of Linux."""

    name: str
    wheel: tuple[str, ...]
    npm: str
    npm_cpu: str
    debian: str
    homebrew: str

    @property
    def target(self):
        """The target of Rust. Its programs are static, so that any Linux can run them."""
        return f"{self.name}-unknown-linux-musl"


PLATFORMS = {
    each.name: each
    for each in (
        Platform("x86_64", ("manylinux_2_17_x86_64", "musllinux_1_1_x86_64"), "linux-x64", "x64", "amd64", "intel"),
        Platform("aarch64", ("manylinux_2_17_aarch64", "musllinux_1_1_aarch64"), "linux-arm64", "arm64", "arm64", "arm"),
    )
}
