"""What a storm does, chosen beforehand."""

from itertools import pairwise

from chaos.plan import APART, KINDS, plan
from tests.requirement import requirement

COUNTS = dict.fromkeys({kind.who for kind in KINDS.values()}, 2) | {"store": 1}


@requirement("PROOF-storm-seed")
def test_the_same_seed_is_the_same_storm_and_another_one_another() -> None:
    first, again, other = (plan(seed, seconds=120, counts=COUNTS, can=KINDS) for seed in (7, 7, 8))
    assert first == again != other
    assert len(first) > 60
    assert all(fault.at + fault.lasts < 120 for fault in first)


@requirement("PROOF-storm-seed")
def test_nobody_has_two_faults_at_once_and_there_is_one_failover_at_most() -> None:
    for seed in range(20):
        chosen = plan(seed, seconds=180, counts=COUNTS, can=KINDS)
        for who in {(KINDS[fault.what].who, fault.number) for fault in chosen}:
            mine = [fault for fault in chosen if (KINDS[fault.what].who, fault.number) == who]
            assert all(one.at + one.lasts + APART <= two.at for one, two in pairwise(mine))
        assert sum(fault.what == "database failover" for fault in chosen) <= 1


def test_only_what_can_be_done_is_done() -> None:
    chosen = plan(1, seconds=60, counts=COUNTS, can=["worker killed", "disk full"])
    assert {fault.what for fault in chosen} == {"worker killed", "disk full"}
