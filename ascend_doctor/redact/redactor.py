"""Hides what was told to it and what it knows the shape of, in texts and in whole structs."""

import os
import re
from _blake2 import blake2b  # hashlib loads OpenSSL
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from ascend_doctor.facts import Snapshot
from ascend_doctor.patterns import defer
from ascend_doctor.redact.addresses import parse_address, pseudonym
from ascend_doctor.redact.identities import IDENTITIES, IPV4, IPV6, is_address
from ascend_doctor.redact.meanings import CHECKS, Cell
from ascend_doctor.redact.names import compile_names, is_word
from ascend_doctor.redact.shapes import BETWEEN, SHAPES, TOKENS, Shape, ShapeIndex, fold
from ascend_doctor.redact.tables import find_cells, find_framed_cells
from ascend_doctor.redact.tokens import find_tokens
from ascend_doctor.redact.trees import RedactedTree, texts_of
from ascend_doctor.redact.unseen import EVERYWHERE, VisibleText
from ascend_doctor.redact.values import SECRETS, find_values
from ascend_doctor.redact.vocabulary import is_strange, strange_lines

T = TypeVar("T")
Hidden = tuple[str, str, str]

# The home folder in facts and recordings: judged again, "~" would not be a full path.
_HOME = "/home/user"
_GONE = "[redacted]"
_MAC = "00:00:00:00:00:00"
# What is already hidden, as in a merged report, keeps its pseudonym.
_PSEUDONYM = defer(r"(?:host|serial|user|word)-[0-9a-f]{8}")
_PAIRS = {"pair": ("user", "host"), "pair?": ("user?", "host#")}
_MOST_MET = 500
_LONE = re.compile(r"[^ /-]*")
# A JSON text or a sentence in a URL.
_ESCAPED = defer(r"(?:(?<=[=:])|(?<![\w.~+*=:%-]))[\w.~+*=:-]*(?:%[0-9A-Fa-f]{2}[\w.~+*=:-]*)+")


class Redactor:
    """Knows what to hide on one machine. ``key`` makes pseudonyms comparable between reports.

    ``hosts`` are other machines, ``logins`` people; ``visible`` names and addresses stay, as
    nodes are called so. ``hidden`` counts what was hidden, as (kind, original, replacement);
    ``strict`` hides each word that neither software nor this package has and is not ``known``,
    and ``whole_lines`` the rest of a line that tells of somebody.
    """

    def __init__(  # noqa: PLR0913 - what there is to know of a machine
        self,
        *,
        host: str = "",
        hosts: Iterable[str] = (),
        home: str = "",
        logins: Iterable[str] = (),
        addresses: Iterable[str] = (),
        visible: Iterable[str] = (),
        key: bytes | None = None,
    ) -> None:
        # A secret key: else trying names would reveal the pseudonym's.
        self._key = key or os.urandom(16)
        self._home = re.compile(rf"(?<![\w.-]){re.escape(home.rstrip('/'))}(?![\w.-])")
        self._home_folder = home.rstrip("/")
        self._quoted = re.compile(
            rf"'{re.escape(self._home_folder)}/(?=[^'\n]*[^\w@%+=:,./'\n-][^'\n]*')"
        )
        self._stay = {*visible}
        self._own: frozenset[str] = frozenset()
        self._addresses = {address for address in addresses if parse_address(address)}
        self._names = compile_names((host, *hosts), logins)
        self._secrets, self._tokens, self._identities = _EVERY
        self._cleaned: dict[tuple[Any, ...], dict[tuple[str, str], str]] = {}
        self._met: dict[str, str] = {}
        self.strict, self.whole_lines, self.known = False, False, frozenset[str]()
        self.hidden: dict[Hidden, int] = {}

    def trust(self, own: Iterable[str]) -> None:
        """Take whole texts for the doctor's own; a lone word might be a host's name."""
        self._own = frozenset(text for text in own if not _LONE.fullmatch(text))

    def _digest(self, text: str) -> str:
        return blake2b(text.encode(), key=self._key, digest_size=4).hexdigest()

    def _became(self, kind: str, was: str, now: str) -> str:
        if was in self._stay or was == now or was.startswith(_GONE[:-1]):
            return was
        if kind in {"address", "host", "serial", "user", "word"}:
            self._stay.add(now)
        self.hidden[kind, was, now] = self.hidden.get((kind, was, now), 0) + 1
        return now

    def _pseudonym(self, kind: str, was: str) -> str:
        if kind == "address":
            return self.address(was)
        if kind == "host":
            return self.name(kind, was)
        return self._became(kind, was, f"{kind}-{self._digest(was)}")

    def name(self, kind: str, was: str) -> str:
        """A host's or user's pseudonym; a host has the same with and without its domain."""
        if _PSEUDONYM.fullmatch(was) or was in self._stay or is_word(was):
            return was
        if (address := parse_address(was)) is not None:
            return self._became("address", was, pseudonym(address, self._key))
        # Host names ignore case (RFC 4343).
        known_as = was.partition(".")[0].lower() if kind == "host" else was
        machine = kind == "host" and re.search(r"\d", was) and "." not in was and CHECKS[":"](was)
        if (machine or (kind == "user" and is_strange(was))) and len(self._met) < _MOST_MET:
            self._met[was] = kind
        return self._became(kind, was, f"{kind}-{self._digest(known_as)}")

    def address(self, text: str) -> str:
        """A pseudonym inside 10.0.0.0/8 or fd00::/8 that shares prefixes."""
        address = parse_address(re.sub(r"\b0+(?=\d)", "", text))
        return self._became("address", text, pseudonym(address, self._key)) if address else text

    def text(self, text: str) -> str:
        """A text without secrets, with pseudonyms for names and addresses, and "~" for home."""
        if self._home_folder:
            # A shell does not expand a quoted ~: move the quote after it, if the path needs
            # quotes, as shlex.quote writes it. Other quotes belong to a log.
            text = self._quoted.sub("~/'", text)
        return self._redact(text, "~")

    def fact(self, text: str) -> str:
        """The same for facts and recordings, with full paths."""
        return self._redact(text, _HOME)

    def secrets(self, text: str) -> str:
        """Without secrets; names, addresses and folders stay."""
        plain = VisibleText(text)
        self._hide_secrets(plain, fold(plain.text), identities=False, clean=self.secrets)
        return plain.whole()

    def _hide_shapes(self, plain: VisibleText, shapes: Iterable[Shape]) -> None:
        for shape in shapes:
            places = strange_lines(plain.text) if shape.kind[-1] in "?!" else EVERYWHERE
            if places:
                plain.substitute(shape.compile_shape(), self._hide(shape), places)

    def _hide_secrets(
        self, plain: VisibleText, folded: str, *, identities: bool, clean: Callable[[str], str]
    ) -> None:
        """And with ``identities`` those that a name or a heading announces."""

        def hide(cells: Iterable[Cell]) -> None:
            plain.replace(
                (start, end, self._instead(kind, plain.text[start:end]))
                for kind, start, end in list(cells)
                if identities or kind in SECRETS
            )

        def hide_escaped(match: re.Match[str]) -> str:
            was = unquote(match[0])
            name, sign, rest = clean(was).partition("=")
            # Encoded again, it has been cleaned.
            now = name + sign + (rest if "%" in rest else clean(rest))
            return match[0] if now == was else quote(now, safe="[]~+*=:")

        if "%" in folded:
            plain.substitute(_ESCAPED, hide_escaped)
        if "\n" in folded or "\\n" in folded:
            hide(find_cells(plain.text))
            hide(find_framed_cells(plain.text))
        self._hide_shapes(plain, self._secrets.within(folded))
        hide(find_values(plain.text))
        self._hide_shapes(plain, self._tokens.within(folded))
        hide(find_tokens(plain.text))

    def _redact(self, text: str, home: str) -> str:
        if text in self._stay or text in self._own or not text[1:]:
            return text
        plain = VisibleText(text)
        folded = fold(plain.text)
        self._hide_secrets(
            plain, folded, identities=True, clean=lambda was: self._redact(was, home)
        )
        # Before names: the folder often ends with the login.
        if self._home_folder and self._home_folder in plain.text:
            plain.substitute(self._home, lambda match: self._became("home", match[0], home))
        for kind, pattern in self._names:
            plain.substitute(pattern, lambda match, kind=kind: self.name(kind, match[0]))  # type: ignore[misc]
        self._hide_shapes(plain, self._identities.within(folded))
        for was, kind in self._met.items():  # what was hidden once is hidden everywhere
            if was in plain.text:
                everywhere = re.compile(rf"(?<![A-Za-z0-9]){re.escape(was)}(?![A-Za-z0-9])")
                plain.substitute(everywhere, lambda match, kind=kind: self.name(kind, match[0]))  # type: ignore[misc]
        if plain.text.count(".") >= 3:  # noqa: PLR2004 - four parts
            plain.substitute(IPV4, self._ipv4)
        if plain.text.count(":") > 1:  # as in each IPv6 address
            plain.substitute(IPV6, self._ipv6)
        if self.strict:
            from ascend_doctor.redact.allowlist import pieces_beside, unknown_pieces

            for look in (unknown_pieces, pieces_beside)[: 1 + self.whole_lines]:
                pieces = [*look(plain.text, self.known)]
                plain.replace(
                    (start, end, self._pseudonym(kind, plain.text[start:end]))
                    for kind, start, end in pieces
                )
        return plain.whole()

    def _hide(self, shape: Shape) -> Callable[[re.Match[str]], str]:
        def hide_groups(match: re.Match[str]) -> str:
            hidden, at = "", match.start()
            for number in range(1, len(match.groups()) + 1) if match.groups() else (0,):
                start, end = match.span(number)
                if start >= 0:
                    kind = _PAIRS[shape.kind][number - 1] if shape.kind in _PAIRS else shape.kind
                    hidden += match.string[at:start] + self._instead(kind, match[number])
                    at = end
            return hidden + match.string[at : match.end()]

        return hide_groups

    def _instead(self, kind: str, was: str) -> str:
        if BETWEEN in was:  # several words of a list
            return BETWEEN.join(self._instead(kind, word) for word in was.split(BETWEEN))
        if check := CHECKS.get(kind[-1]):
            kind = kind[:-1]
            if not check(was):
                return was
        if kind == "host":  # one, or a list
            return re.sub(r"[^,\s\[]+(?:\[[^\]]*\])?", lambda name: self.name(kind, name[0]), was)
        if kind == "user":
            return self.name(kind, was)
        if kind == "serial":
            return self._pseudonym(kind, was)
        return self._became(kind, was, _MAC if kind == "MAC address" else _GONE)

    def _ipv4(self, match: re.Match[str]) -> str:
        inside = self.strict and match[0] != match.string
        address = is_address(match.string, *match.span(), inside=inside)
        known = address or match[0] in self._addresses
        return self.address(match[0]) if known else match[0]

    def _ipv6(self, match: re.Match[str]) -> str:
        groups = [group for group in match[0].split(":") if group]
        # Two hexadecimal words around :: are rather C++ (c10::be).
        few = len(groups) < 3 and not re.match(r"f[cde]|[23][0-9a-f]{3}:", match[0], re.IGNORECASE)  # noqa: PLR2004
        return match[0] if few and match[0] not in self._addresses else self.address(match[0])

    def apply(self, value: T) -> T:
        """Redact every text of a value, also keys of mappings."""
        return self._whole(value, self.fact if isinstance(value, Snapshot) else self.text)

    def without_secrets(self, value: T) -> T:
        """Remove secrets from a value; names and addresses stay."""
        return self._whole(value, self.secrets)

    def _whole(self, value: T, clean: Callable[[str], str]) -> T:
        # One look at the whole value spares one for each of thousands of texts.
        folded = fold("\n".join(texts_of(value)))
        self._secrets, self._tokens, self._identities = (
            ShapeIndex(each.within(folded)) for each in _EVERY
        )
        how = clean.__name__, self.strict, self.whole_lines, self.known
        tree = RedactedTree(clean, self._cleaned.setdefault(how, {}))
        try:
            return tree.cleaned(value)  # type: ignore[no-any-return]
        finally:
            self._secrets, self._tokens, self._identities = _EVERY


_EVERY = (ShapeIndex(SHAPES), ShapeIndex(TOKENS), ShapeIndex(IDENTITIES))
