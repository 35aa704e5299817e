"""Text of strangers (names of models, notes) made harmless for Markdown, CSV and terminals."""

import re

LONGEST = 200
_NUMBER = re.compile(r"-?[0-9.]+( \[-?[0-9.]+, -?[0-9.]+\])?")
_MARKDOWN = re.compile(r"([\\`*\[\]|~$!]|^#|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_LINKS = re.compile(r"(?i)(https?|ftp|mailto)(:)|\b(www)(\.)")


def one_line(text: str, longest: int = LONGEST) -> str:
    """The text on one line, without characters that steer terminals, and not too long."""
    from harness.report import printable

    text = text.encode("utf-8", "replace").decode("utf-8")
    text = " ".join(printable(re.sub(r"[\r\n\t\x0b\x0c\x85\u2028\u2029]", " ", text)).split())
    return text if len(text) <= longest else text[: longest - 3] + "..."


def markdown(text: str) -> str:
    """Markdown that shows the text as it is: no markup, no HTML, no cell border, no link."""
    if _NUMBER.fullmatch(text):
        return text
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKDOWN.sub(r"\\\1", text)
    return _LINKS.sub(lambda m: f"{m[1] or m[3]}\\{m[2] or m[4]}", text)


def spreadsheet(text: str) -> str:
    """The text, with a quote in front where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.lstrip()[:1] in tuple("=+-@\uff1d\uff0b\uff0d\uff20") else text
