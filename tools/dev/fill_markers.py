"""Generated tables in Markdown files: what stands between `<!-- name -->` and `<!-- end -->`."""
import re
import sys


def fill_markers(path, sections):
    """Replaces the text of each marker by that of `sections`, {name: text}."""
    text = path.read_text(encoding="utf-8")
    for name, body in sections.items():
        pattern = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            sys.exit(f"error: {path} has no place for '{name}'")
        text = pattern.sub(lambda m: m.group(1) + body + "\n" + m.group(2), text)
    path.write_text(text, encoding="utf-8")
