"""Write the digest of each image behind its tag, in the Dockerfile and in docker-compose.yml: ``python:3.13-slim@sha256:…``.

A tag can be moved to another image, and a digest can't. Run it again for newer ones. It asks the registry by ``docker buildx``.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
FILES: Final = ("docker-compose.yml", "deploy/Dockerfile")
OWN: Final = "switchgear:"
"""Built here, so it is in no registry."""
_IMAGE: Final = re.compile(
    r"^(?P<before>\s*image:\s+|FROM\s+)(?P<image>[a-z0-9./_-]+:[\w.-]+)(?:@sha256:[0-9a-f]{64})?(?=\s|$)", re.MULTILINE
)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_LIMIT_S: Final = 60


def digest_of(image: str) -> str:
    """Return the digest that a tag has now. It stands for the image of every platform.

    Raises:
        SystemExit: The registry doesn't answer, or the answer is none.
    """
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemExit(f"The digest of {image} can't be read: {error}. Nothing was changed.") from None
    found = done.stdout.strip()
    if done.returncode or not _DIGEST.fullmatch(found):
        why = done.stderr.strip() or f"docker answered {found[:80]!r}"
        raise SystemExit(f"The digest of {image} can't be read: {why}. Nothing was changed.")
    return found


def images_in(text: str) -> list[str]:
    """Return the images of others that a file names, each once."""
    return list(dict.fromkeys(each["image"] for each in _IMAGE.finditer(text) if not each["image"].startswith(OWN)))


def pinned(text: str, digests: dict[str, str]) -> str:
    """Return the text of a file with these digests behind the tags."""

    def one(found: re.Match[str]) -> str:
        digest = digests.get(found["image"])
        return found[0] if digest is None else f"{found['before']}{found['image']}@{digest}"

    return _IMAGE.sub(one, text)


def main(folder: Path = REPOSITORY) -> None:
    """Pin all images of the folder's files, or none."""
    texts = {folder / name: (folder / name).read_text(encoding="utf-8") for name in FILES}
    digests = {image: digest_of(image) for text in texts.values() for image in images_in(text)}
    for path, text in texts.items():
        path.write_text(pinned(text, digests), encoding="utf-8")
    for image, digest in digests.items():
        print(f"{image}@{digest}")


if __name__ == "__main__":
    main()
