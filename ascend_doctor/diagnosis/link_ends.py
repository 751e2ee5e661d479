"""What ended HCCL's link set-up, and on which rank, from the facts of all processes."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ascend_doctor.diagnosis.ledger import Ledger
from ascend_doctor.diagnosis.links import LinkMember, numbers
from ascend_doctor.diagnosis.places import pid_of
from ascend_doctor.diagnosis.waiting import Party, name

# HCCL_CONNECT_TIMEOUT, unless it is set (hcomm: externalinput.cc), and what of it is late.
_PATIENCE, _LATE = 120.0, 0.9
# Variables that a node may have of its own, and operators whose counts differ by rank.
_OF_NODE = re.compile(r"_(IF_IP|IFNAME|SUPERPOD_ID|FILE|PATH|LOG_ENABLE|DIAGNOSE_ENABLE)$")
_UNEVEN = re.compile(r"VC?$|Send|Rec")
# What HCCL compares and the environment sets (hcomm: rank_consistentcy_checker.cc).
_SET = {"BufferSize": "HCCL_BUFFSIZE", "determ": "HCCL_DETERMINISTIC", "aivCore": "aivCoreLimit"}
_STATED = {"count": "counts", "versions": "versions", "ranktable": "tables"}
_OTHER_PART = r"\[ERROR\] (?!HCCL\()[A-Z_]{2,24}\(-?\d{1,12},"


@dataclass(frozen=True, kw_only=True)
class LinkEnd:
    """``end`` names texts of matrices/failures/hccl.yaml, ``words`` are for them."""

    end: str
    parties: tuple[Party, ...]
    words: Mapping[str, object] = field(default_factory=dict)
    sure: bool = False


def _end(end: str, parties: Iterable[Party], *, sure: bool = False, **words: object) -> LinkEnd:
    return LinkEnd(end=end, parties=tuple(parties), words=words, sure=sure)


def _split(values: Mapping[Party, str]) -> tuple[list[Party], bool]:
    """Who differs from most, and whether those are more than any others."""
    counted = Counter(values.values()).most_common(2)
    others = [who for who, own in values.items() if own != counted[0][0]]
    return others, not others or counted[0][1] > counted[1][1]


def _differ(
    end: str,
    values: Mapping[Party, str],
    accused: Iterable[Party] = (),
    *,
    sure: bool = False,
    what: str = "",
) -> LinkEnd | None:
    parties, more = _split(values)
    parties = list(accused) or parties
    if not parties:
        return None
    theirs = next(own for who, own in values.items() if who not in parties)
    mine = values[parties[0]]
    return _end(end, parties, sure=sure and more, what=what, mine=mine, theirs=theirs)


def _names(members: Iterable[LinkMember]) -> str:
    return ", ".join(sorted({member.origin.node for member in members}))


def _first(times: Iterable[float | None]) -> float | None:
    return min((at for at in times if at is not None), default=None)


class LinkJudge:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._members: dict[Party, LinkMember] = {}
        self._every = self._members.items()
        self._all: list[tuple[Party, LinkMember]] = []
        for member in ledger.links.members():
            pid, rank = pid_of(member.origin), ledger.rank(member.origin)
            if rank is None and (own := member.value("links", "waits")):
                rank = int(own)
            if pid or rank is not None:
                party = name(pid) if rank is None and pid else rank or 0
                self._members[party] = member
                self._all.append((party, member))
        kinds = ledger.waiting.kinds
        self._links = {link for link, kind in kinds.items() if kind == "socket"}
        # Links that failed at both ends come before those of others.
        self._core = {link for link in self._links if link[::-1] in self._links} or self._links

    def find(self) -> LinkEnd | None:
        """What lines state."""
        return self._find_stated() or self._cards() or self._checks() or self._negotiation()

    def infer(self) -> LinkEnd | None:
        """What follows from the links and collectives that ranks waited in."""
        return self._differences() or self._late() or self._route() or self._tasks()

    def _time(self, member: LinkMember, seconds: float | None) -> float | None:
        offset = self._ledger.clocks.offsets.get(member.origin.node, 0.0)
        return None if seconds is None else seconds - offset

    def _cuts(self, values: Mapping[Party, str]) -> bool:
        """Whether every link that failed first joins two that differ, and both waited."""
        pairs = [(values.get(waiter), values.get(peer)) for waiter, peer in self._core]
        waited = {a for a, _ in self._core} >= {b for _, b in self._core}
        return bool(pairs) and waited and all(a and b and a != b for a, b in pairs)

    def _find_stated(self) -> LinkEnd | None:
        for party, member in self._all:
            for event in member.first.values():
                group = member.group_at(event.name)
                match event.name, event.words:
                    case "refuses", (kind, address, port):
                        return self._refuse(party, kind, address=address, port=port)
                    case "has twice", (rank,):
                        nodes = _names(m for _, m in self._all if m.entry(group)[0] == int(rank))
                        return _end("twice", (), rank=rank, group=group, nodes=nodes)
                    case "other size", _:
                        return self._size(group)
                    case "mixes", _:
                        return self._family()
                    case "lists", (state, on, off, listed):
                        return self._tls(group, state, listed or (on if state == "Enable" else off))
        return None

    def _refuse(self, party: Party, kind: str, **words: str) -> LinkEnd:
        # Its first rank listens for a group, and that of the first group is rank 0.
        first = kind == "2" and not any(m.entered for _, m in self._all)
        who = 0 if first and isinstance(party, str) else party
        return _end("host-port" if kind == "2" else "not-listening", [who], sure=True, **words)

    def _size(self, group: str) -> LinkEnd | None:
        entries = [m.entry(group) for _, m in self._all if group in m.entered]
        sizes: dict[Party, str] = {rank: str(size) for rank, size, _ in entries}
        known = str(self._ledger.world_size)
        others = [rank for rank, own in sizes.items() if own != known]
        return _differ("size", sizes, others, sure=True) if known in sizes.values() else None

    def _family(self) -> LinkEnd | None:
        """HCCL takes IPv6 where a card has no IPv4."""
        of = self._ledger.processes.of
        known = {p: card.address for p, m in self._all if (card := of(m.origin))}
        values = {p: "IPv6" if ":" in known[p] else "IPv4" for p in known if known[p]}
        first = {p: family for p, family in values.items() if family == "IPv4"}
        return _differ("family", first | values, sure=True) if values else None

    def _tls(self, group: str, state: str, listed: str) -> LinkEnd:
        theirs = "DISABLE" if state == "Enable" else "ENABLE"
        ranks = sorted(numbers(" ".join(re.findall(r"/([\d,]+)\]", listed))))
        parties = [self._party(group, rank) for rank in ranks]
        return _end("tls", parties, sure=True, mine=state.upper(), theirs=theirs)

    def _cards(self) -> LinkEnd | None:
        """Two on one card, or on several of two nodes: those have one address."""
        claims: dict[tuple[str, str, int], dict[int, Party]] = {}
        for party, member in self._every:
            process = self._ledger.processes.of(member.origin)
            for group, (rank, _, _) in member.entered.items():
                if process and process.device is not None:
                    card = (group, process.server or member.origin.node, process.device)
                    claims.setdefault(card, {})[rank] = party
        shared = {card: both for card, both in claims.items() if len(both) > 1}
        for (_, server, device), both in shared.items():
            nodes = _names(self._members[party] for party in both.values())
            if "," in nodes and (len(shared) > 1 or len(claims) == 1):
                return _end("shared-address", (), address=server, nodes=nodes)
            return _end("same-card", sorted(both.values(), key=str), sure=True, device=device)
        return None

    def _checks(self) -> LinkEnd | None:
        """Values that both ends of a link exchanged."""
        check = next((key for _, m in self._every for key in m.checks), "")
        both = {who: m.checks[check] for who, m in self._every if check in m.checks}
        values = {who: m.value("allots") for who, m in self._every if "BufferSize" in check}
        values = {who: size for who, size in values.items() if size}
        for who, (_, theirs) in both.items():
            values |= dict.fromkeys(self._ledger.waiting.edges.get(who, ()), theirs)
        values |= {who: own for who, (own, _) in both.items()}
        variable = next((own for part, own in _SET.items() if part in check), "")
        if check and not variable:
            end = _STATED.get(check.lower(), "operators")
            return _differ(end, values, sure=True, what=check)
        differ = _differ("environment", values, what=variable) if check else None
        return differ and (self._differences() or differ)

    def _differences(self) -> LinkEnd | None:
        """What differs between both ends of every link that failed first."""
        states = {"1": "ENABLE", "0": "DISABLE"}
        tls = {p: (states.get(own, own), "") for p, m in self._every if (own := m.value("tls"))}
        rows = [("tls", "", tls)]
        for key in dict.fromkeys(key for _, m in self._every for key in m.variables):
            if not _OF_NODE.search(key):
                values = {p: m.variables[key] for p, m in self._every if key in m.variables}
                rows.append(("environment", key, values))
        for group in {group for _, m in self._every for group in m.operators}:
            values = {p: (m.operators[group], "") for p, m in self._every if group in m.operators}
            rows.append(("operators", "operator", values))
        for end, what, known in rows:
            each = {party: value for party, (value, _) in known.items()}
            if self._cuts(each):
                # As many have each value: those differ for whom somebody set it.
                setters = [p for p, (_, how) in known.items() if how and not _split(each)[1]]
                return _differ(end, each, setters if len(setters) < len(each) else (), what=what)
        return None

    def _late(self) -> LinkEnd | None:
        waits = {who: m for who, m in self._every if "waits" in m.first}
        times = {who: self._time(member, member.at("waits")) or 0 for who, member in waits.items()}
        last = max(times, key=times.__getitem__, default=None)
        both = [who for who, peer in self._links if peer == last and (peer, who) in self._links]
        before = [times[who] for who in both if who in times]
        seen = (member.first["waits"].seen for member in waits.values())
        if last is None or not before or not self._ledger.in_order(seen):
            return None
        late = times[last] - max(before)
        patience = waits[last].variables.get("HCCL_CONNECT_TIMEOUT", ("", ""))[0]
        if late < _LATE * (float(patience) if patience.isdecimal() else _PATIENCE):
            return None
        return _end("late", [last], seconds=round(late))

    def _route(self) -> LinkEnd | None:
        """Two that wait for each other, or one and all who wait for it."""
        ends = set.intersection(*map(set, self._links)) if self._links else set()
        if not ends or any(link[::-1] not in self._links for link in self._links):
            return None
        return _end("card" if len(ends) == 1 else "route", sorted(ends, key=str))

    def _tasks(self) -> LinkEnd | None:
        """Some stood in another collective of a group than most."""
        for group in {group for m in self._members.values() for group in m.tasks}:
            tasks = {p: m.tasks[group] for p, m in self._every if group in m.tasks}
            for number, what in enumerate(("operator", "index", "count")):
                values = {party: task[number] for party, task in tasks.items() if task[number]}
                parties, more = _split(values)
                uneven = what == "count" and _UNEVEN.search(next(iter(tasks.values()))[0])
                if parties and more and not uneven and len(values) == len(tasks):
                    return _differ(_STATED.get(what, "operators"), values, what=what)
                if parties:
                    break
        return None

    def _party(self, group: str, rank: int) -> Party:
        """A rank of a group; of one that never entered it by the steps between the others."""
        entered = {p: m.entered[group] for p, m in self._every if group in m.entered}
        known = {own: party for party, (own, _, _) in entered.items()}
        sizes = {size for _, size, _ in entered.values()}
        if rank in known or not group or sizes == {self._ledger.job_size}:
            return known.get(rank, rank)
        pairs = sorted((own, job) for own, job in known.items() if isinstance(job, int))
        steps = {(b - a) / (j - i) for (i, a), (j, b) in itertools.pairwise(pairs)}
        if len(steps) == 1 and (step := steps.pop()).is_integer():
            return pairs[0][1] + int(step) * (rank - pairs[0][0])
        return f"rank {rank} of group {group}"

    def _negotiation(self) -> LinkEnd | None:
        """Ranks that a quorum of a group's processes lacks."""
        votes: dict[str, list[frozenset[int]]] = {}
        for member in self._members.values():
            if lacking := numbers(member.value("lacks")):
                votes.setdefault(member.group_at("lacks"), []).append(lacking)
            group = member.group_at("counts")
            size = int(member.value("needs") or member.entry(group)[1])
            if member.connected and size:
                votes.setdefault(group, []).append(frozenset(range(size)) - member.connected)
        for group, lists in votes.items():
            tally = Counter(rank for each in lists for rank in each)
            missing = [rank for rank in sorted(tally) if 2 * tally[rank] > len(lists)]
            if missing := missing or sorted(tally):
                return self._explain_missing(group, missing, sure=len(set(lists)) == 1)
        return None

    def _explain_missing(self, group: str, missing: list[int], *, sure: bool) -> LinkEnd:
        parties = [self._party(group, rank) for rank in missing]
        times = {p: self._time(m, m.entry(group)[2]) for p, m in self._every}
        others = [m for p, m in self._every if group in m.entered and p not in parties]
        since = _first(at for party, at in times.items() if party not in parties)
        expired = _first(self._time(m, m.at("expires")) for m in self._members.values())
        kinds: dict[str, dict[str, object]] = {}
        for party in parties:
            member, entered = self._members.get(party), times.get(party)
            if self._failed(party, expired):
                kinds["ended"] = {}
            elif since is None or (entered is None and member and "gives up" in member.first):
                kinds["missing"] = {}
                sure = False
            elif entered is None or member is None:
                logged = self._ledger.has_log(party)
                sure &= logged
                log = "it has a log, without" if logged else "no log, so no"
                kinds["not-created"] = {"log": log}
            elif entered > (expired or since + _PATIENCE):
                kinds["late"] = {"seconds": round(entered - since)}
                nodes = {each.origin.node for each in (member, *others)}
                sure &= len(nodes) == 1 or nodes <= self._ledger.clocks.compared
            else:
                cards = {m.card for m in others if m.card}
                kind = "other-card" if cards and member.card not in cards else "host-route"
                theirs = ", ".join(sorted(cards))
                kinds[kind] = {"mine": member.card, "theirs": theirs, "address": member.address}
        end, words = next(iter(kinds.items()))
        # HCCL takes these cards where it has no other (hcomm: sal.cc).
        if str(words.get("theirs")).startswith(("docker", "lo")):
            end, parties = "root-card", [p for p, m in self._every if m in others]
        return _end(end, parties, sure=sure, group=group, **words)

    def _failed(self, party: Party, before: float | None) -> bool:
        """Whether it has an error of its own, of Python or of another part of CANN."""
        first = self._ledger.first_error_of((party,), logged=_OTHER_PART)
        late = first and first.moment and before is not None and first.moment.seconds > before
        return first is not None and not late
