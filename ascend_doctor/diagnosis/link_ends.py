"""What ended HCCL's link set-up, and on which rank, from the facts of all processes."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ascend_doctor.diagnosis.ledger import Ledger, Sighting, earliest
from ascend_doctor.diagnosis.links import LinkMember, numbers
from ascend_doctor.diagnosis.places import pid_of
from ascend_doctor.diagnosis.waiting import Party, name

# HCCL_CONNECT_TIMEOUT, unless it is set (hcomm: externalinput.cc), and what of it is late.
_PATIENCE, _LATE = 120.0, 0.9
# Variables that a node may have of its own, and operators whose counts differ by rank.
_OF_NODE = re.compile(r"_(IF_IP|IFNAME|SUPERPOD_ID|FILE|PATH|LOG_ENABLE|DIAGNOSE_ENABLE)$")
_UNEVEN = re.compile(r"VC?$|Send|Rec")
# What HCCL compares and the environment sets (hcomm: rank_consistentcy_checker.cc).
_SET = re.compile(r"BufferSize|aivCoreLimit|deterministic")
_OTHER_PART = re.compile(r"\[ERROR\] (?!HCCL\()[A-Z_]{2,24}\(-?\d{1,12},")


@dataclass(frozen=True, kw_only=True)
class LinkEnd:
    """``end`` names texts of matrices/failures/hccl.yaml, ``words`` are for them."""

    end: str
    parties: tuple[Party, ...]
    words: Mapping[str, object] = field(default_factory=dict)
    sure: bool = False
    shown: Sighting | None = None


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
    words = {"what": what, "mine": values[parties[0]], "theirs": theirs}
    return LinkEnd(end=end, parties=tuple(parties), words=words, sure=sure and more)


def _first(times: Iterable[float | None]) -> float | None:
    return min((at for at in times if at is not None), default=None)


class LinkJudge:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._members: dict[Party, LinkMember] = {}
        for member in ledger.links.members():
            pid, rank = pid_of(member.origin), ledger.rank(member.origin)
            if rank is None and (own := member.value("links", "waits")):
                rank = int(own)
            if pid or rank is not None:
                self._members[name(pid) if rank is None and pid else rank or 0] = member
        kinds = ledger.waiting.kinds
        self._links = {link for link, kind in kinds.items() if kind == "socket"}
        self._waiters = {waiter for waiter, _ in self._links}
        self._peers = {peer for _, peer in self._links}

    def find(self) -> LinkEnd | None:
        """What lines state."""
        rules = (self._refuse, self._same_card, self._tls, self._checks, self._negotiation)
        return next(filter(None, (rule() for rule in rules)), None)

    def infer(self) -> LinkEnd | None:
        """What follows from the links and collectives that ranks waited in."""
        rules = (self._variables, self._operators, self._late, self._end, self._route, self._tasks)
        return next(filter(None, (rule() for rule in rules)), None)

    def _time(self, member: LinkMember, seconds: float | None) -> float | None:
        offset = self._ledger.clocks.offsets.get(member.origin.node, 0.0)
        return None if seconds is None else seconds - offset

    def _cuts(self, values: Mapping[Party, str]) -> bool:
        """Whether every link that failed joins two that differ, and both waited."""
        pairs = [(values.get(waiter), values.get(peer)) for waiter, peer in self._links]
        waited = bool(pairs) and self._waiters >= self._peers
        return waited and all(a and b and a != b for a, b in pairs)

    def _refuse(self) -> LinkEnd | None:
        for party, member in self._members.items():
            if event := member.first.get("refuses"):
                kind, address, port = event.words
                # Its first rank listens for a group, and that of the first group is rank 0.
                first = kind == "2" and not any(m.entered for m in self._members.values())
                who = 0 if first and isinstance(party, str) else party
                words = {"address": address, "port": port}
                return LinkEnd(end="not-listening", parties=(who,), words=words, sure=True,
                               shown=event.seen)  # fmt: skip
        return None

    def _same_card(self) -> LinkEnd | None:
        taken: dict[tuple[str, str, str, int], tuple[Party, int]] = {}
        for party, member in self._members.items():
            process = self._ledger.processes.of(member.origin)
            for group, (rank, _, _) in member.entered.items():
                if process is None or process.device is None:
                    continue
                position = (group, member.origin.node, process.server, process.device)
                other, before = taken.setdefault(position, (party, rank))
                if before != rank:
                    both = tuple(sorted((other, party), key=str))
                    words = {"device": process.device}
                    return LinkEnd(end="same-card", parties=both, words=words, sure=True)
        return None

    def _tls(self) -> LinkEnd | None:
        listed = next((m for m in self._members.values() if "lists" in m.first), None)
        if listed is None:
            states = {"1": "ENABLE", "0": "DISABLE"}
            every = ((who, m.value("tls")) for who, m in self._members.items())
            values = {who: states.get(own, own) for who, own in every if own}
            return _differ("tls", values, sure=True) if self._cuts(values) else None
        values, twice = {}, False
        states = dict(zip(("ENABLE", "DISABLE"), listed.first["lists"].words, strict=True))
        for state, text in states.items():
            for rank in numbers(" ".join(re.findall(r"/([\d,]+)\]", text))):
                party = self._party(listed.group_at("lists"), rank)
                twice |= party in values
                values[party] = state
        return _differ("tls", values, sure=not twice)

    def _checks(self) -> LinkEnd | None:
        """Values that both ends of a link exchanged."""
        check = next((key for m in self._members.values() for key in m.checks), None)
        values: dict[Party, str] = {}
        both = {who: m.checks[check] for who, m in self._members.items() if check in m.checks}
        for who, (_, theirs) in both.items() if check else ():
            values |= dict.fromkeys(self._ledger.waiting.edges.get(who, ()), theirs)
        values |= {who: own for who, (own, _) in both.items()}
        if check is None or check == "count":
            return _differ("counts", values, sure=True) if check else None
        if not _SET.search(check):
            return _differ("operators", values, sure=True, what=check)
        return self._variables() or _differ("environment", values, what=check)

    def _variables(self) -> LinkEnd | None:
        every = self._members.items()
        for variable in dict.fromkeys(key for _, member in every for key in member.variables):
            known = {who: m.variables[variable] for who, m in every if variable in m.variables}
            values = {who: value for who, (value, _) in known.items()}
            if self._cuts(values) and not _OF_NODE.search(variable):
                # As many have each value: those differ for whom somebody set it.
                own = [] if _split(values)[1] else [who for who, (_, how) in known.items() if how]
                own = own if len(own) < len(values) else []
                return _differ("environment", values, own, what=variable)
        return None

    def _operators(self) -> LinkEnd | None:
        every = self._members.items()
        for group in {group for _, member in every for group in member.operators}:
            values = {who: m.operators[group] for who, m in every if group in m.operators}
            if self._cuts(values):
                return _differ("operators", values, what="operator")
        return None

    def _late(self) -> LinkEnd | None:
        waits = {who: m for who, m in self._members.items() if "waits" in m.first}
        times = {who: self._time(member, member.at("waits")) or 0 for who, member in waits.items()}
        last = max(times, key=times.__getitem__, default=None)
        both = {waiter for waiter, peer in self._links if (peer, waiter) in self._links}
        before = [times[who] for who in both & times.keys() if (who, last) in self._links]
        seen = (member.first["waits"].seen for member in waits.values())
        if last is None or not before or not self._ledger.in_order(seen):
            return None
        late = times[last] - max(before)
        patience = waits[last].variables.get("HCCL_CONNECT_TIMEOUT", ("", ""))[0]
        if late < _LATE * (float(patience) if patience.isdecimal() else _PATIENCE):
            return None
        return LinkEnd(end="late", parties=(last,), words={"seconds": round(late)})

    def _end(self) -> LinkEnd | None:
        """The one that the others wait for, and that ended by then."""
        alone = self._peers - self._waiters
        party = alone.pop() if len(alone) == 1 else None
        member = self._members.get(party) if party is not None else None
        if party is None or member is None:
            return None
        began = _first(self._time(m, m.at("waits")) for m in self._members.values())
        ended = "destroys" in member.first or self._failed(party, began)
        return LinkEnd(end="ended", parties=(party,)) if ended else None

    def _route(self) -> LinkEnd | None:
        """Two that wait for each other, or one and all who wait for it."""
        ends = set.intersection(*map(set, self._links)) if self._links else set()
        if not ends or any(link[::-1] not in self._links for link in self._links):
            return None
        end = "card" if len(ends) == 1 else "route"
        return LinkEnd(end=end, parties=tuple(sorted(ends, key=str)))

    def _tasks(self) -> LinkEnd | None:
        """Some stood in another collective of a group than most."""
        for group in {group for m in self._members.values() for group in m.tasks}:
            tasks = {p: m.tasks[group] for p, m in self._members.items() if group in m.tasks}
            for number, what in enumerate(("operator", "index", "count")):
                values = {party: task[number] for party, task in tasks.items() if task[number]}
                parties, more = _split(values)
                uneven = what == "count" and _UNEVEN.search(next(iter(tasks.values()))[0])
                if parties and more and not uneven and len(values) == len(tasks):
                    end = "counts" if what == "count" else "operators"
                    return _differ(end, values, what=what)
                if parties:
                    break
        return None

    def _party(self, group: str, rank: int) -> Party:
        """A rank of a group; of one that never entered it by the steps between the others."""
        entered = {p: m.entered[group] for p, m in self._members.items() if group in m.entered}
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
            size = int(member.value("needs") or member.entered.get(group, (0, 0, None))[1])
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
        times = {p: self._time(m, m.entered.get(group, (0, 0, None))[2])
                 for p, m in self._members.items()}  # fmt: skip
        others = [m for p, m in self._members.items() if group in m.entered and p not in parties]
        since = _first(at for party, at in times.items() if party not in parties)
        expired = _first(self._time(m, m.at("expires")) for m in self._members.values())
        kinds: dict[str, dict[str, object]] = {}
        for party in parties:
            member, entered = self._members.get(party), times.get(party)
            if self._failed(party, expired):
                kinds["ended"] = {}
            elif since is None or (entered is None and member and "gives up" in member.first):
                kinds["missing"] = {}
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
        return LinkEnd(end=end, parties=tuple(parties), words=words | {"group": group}, sure=sure)

    def _failed(self, party: Party, before: float | None) -> bool:
        """Whether it has an error of its own, of Python or of another part of CANN."""
        own = [*self._ledger.exceptions.values(), *self._ledger.deaths.values()]
        logged = self._ledger.logged.values()
        own += [seen for seen in logged if _OTHER_PART.match(seen.first.text)]
        every = (pair for seen in own for pair in seen.by_origin.items())
        first = earliest(seen for origin, seen in every if self._ledger.rank(origin) == party)
        late = first and first.moment and before is not None and first.moment.seconds > before
        return first is not None and not late
