"""Fetch the jar of the RAPIDS Accelerator, once, into this user's cache folder; print where it is.

    python -m tests.rapids.fetch

Spark's own client of Maven Central does it. The file that the plugin's own description names as its parent is not
published, so no description is read: the jar needs nothing beside it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from gpu_wcoj.spark import local_session
from gpu_wcoj.spark.session import ARTIFACT, PLUGIN

SETTINGS = """
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
"""For Ivy: Maven Central, which is what a resolver of this kind asks by itself, without descriptions."""


def place() -> Path:
    """Where the jar is, or belongs: ``RAPIDS_JAR``, or the cache folder."""
    own = os.environ.get("RAPIDS_JAR")
    if own:
        return Path(own)
    cache = os.environ.get("XDG_CACHE_HOME", "")
    parent = Path(cache if os.path.isabs(cache) else "~/.cache").expanduser()
    return parent / "gpu_wcoj" / f"{ARTIFACT.partition(':')[2]}-{PLUGIN}.jar"


def fetch(to: Path) -> None:
    """Fetch the jar: a gigabyte, whose checksum Ivy compares."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        settings = Path(folder) / "ivysettings.xml"
        settings.write_text(SETTINGS)
        session = local_session(
            conf={
                "spark.jars.packages": f"{ARTIFACT}:{PLUGIN}",
                "spark.jars.ivy": folder,
                "spark.jars.ivySettings": str(settings),
            }
        )
        session.stop()
        (jar,) = (Path(folder) / "jars").glob("*.jar")
        shutil.move(jar, to)


if __name__ == "__main__":
    if not place().exists():
        print(f"Fetching {ARTIFACT}:{PLUGIN}, about a gigabyte, to {place()}", file=sys.stderr)
        fetch(place())
    print(place())
