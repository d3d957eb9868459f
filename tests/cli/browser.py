"""A headless browser for the report page: what the page becomes, and what a script finds in it at any width."""

import html
import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
            "--virtual-time-budget=3000"]
DARK = "--blink-settings=preferredColorScheme=0"
needs_browser = pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed; tools/install-deps test installs it")


def open_in_browser(page, tmp_path, *more):
    """(the page as the browser has it after its scripts ran, without these; what the scripts complained of)"""
    address = page if isinstance(page, str) else page.as_uri()
    done = subprocess.run([*CHROMIUM, f"--user-data-dir={tmp_path / 'browser'}", *more, "--dump-dom", address],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.S), complaints


def look(page, tmp_path, script, width=1200, height=900, more=()):
    """What @script, which runs in the page after its own scripts, returns. It may await.

    A window has 500 pixels at least, so the page is in a frame of @width.
    """
    own = (f"<script>(async () => {{ {script} }})().catch((e) => ({{ failed: e.stack }}))"
           ".then((seen) => { document.body.dataset.seen = JSON.stringify(seen); });</script></body>")
    framed = html.escape(page.read_text().replace("</body>", own))
    outer = tmp_path / "outer.html"
    outer.write_text('<!DOCTYPE html><html lang="en"><body><iframe style="border: 0; '
                     f'width: {width}px; height: {height}px" srcdoc="{framed}"></iframe><pre></pre><script>'
                     'setInterval(() => { document.querySelector("pre").textContent = '
                     'document.querySelector("iframe").contentDocument?.body?.dataset.seen || ""; }, 50);</script></body></html>')
    seen, complaints = open_in_browser(outer, tmp_path, *more)
    assert complaints == [], complaints
    return json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", seen, re.S)[1]))


# For each plot its title, and of its lines and cells: pixels that have neither the colour of the frame nor of the text.
PIXELS = """
  await new Promise((done) => setTimeout(done, 50)); // plots are drawn once the script is over
  return [...document.querySelectorAll("figure:has(canvas)")].map((figure) => {
    const canvas = figure.querySelector("canvas"), { width, height } = canvas;
    const bytes = canvas.getContext("2d").getImageData(0, 0, width, height).data;
    let coloured = 0, any = 0;
    for (let i = 0; i < bytes.length; i += 4) {
      const [r, g, b, a] = bytes.slice(i, i + 4);
      any += a > 0;
      coloured += a > 20 && Math.max(r, g, b) - Math.min(r, g, b) > 50;
    }
    return { title: figure.querySelector("figcaption > .name").textContent, width, any, coloured };
  });
"""
