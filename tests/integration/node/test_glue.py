"""Pieces of the glue by themselves, each in a JVM of its own, without a node."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.cluster.nodes import needs_hazelcast
from tests.support.ports import free_port

pytestmark = needs_hazelcast

BEGIN = """
import sys
import jpype
from kvwal.node import jvm

jvm.start("128m", None, ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *sys.argv[1:]])
"""


def said(script: str, *options: str) -> list[str]:
    """What a script printed, by lines, in a JVM with these options."""
    command = [sys.executable, "-c", BEGIN + script, *options]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


ANSWERS = """
asked = []
kept = []

def ask(member, answer):
    name = str(member)
    asked.append(name)
    kept.append(answer)
    if name == "prompt" or asked.count(name) == 3:
        answer.complete(name + " answers")
    if name == "wrong":
        answer.completeExceptionally(jvm.java("java.lang.IllegalStateException")("no"))
    if name == "late" and len(asked) > 4:
        kept[asked.index("late")].complete("late answers the first time")

def is_there(member):
    return str(member) != "gone"

def answers(*names):
    asked.clear()
    kept.clear()
    return [str(answer) for answer in jvm.java("kvwal.node.MemberQuery").of(list(names), ask, is_there, 50)]

print(answers("prompt"), asked)
print(answers("prompt", "silent"), asked)
print(answers("late", "gone", "prompt", "silent"), asked)
try:
    answers("prompt", "wrong")
except jvm.java("java.util.concurrent.ExecutionException") as error:
    print(error.getCause().getMessage())
"""


def test_a_silent_member_is_asked_again_until_it_answers_or_leaves() -> None:
    assert said(ANSWERS) == [
        "['prompt answers'] ['prompt']",
        "['prompt answers', 'silent answers'] ['prompt', 'silent', 'silent', 'silent']",
        "['late answers the first time', 'prompt answers', 'silent answers']"
        " ['late', 'gone', 'prompt', 'silent', 'late', 'silent', 'silent']",
        "no",
    ]


INSTANCE = """
config = jvm.java("com.hazelcast.config.Config")()
config.setProperty("hazelcast.phone.home.enabled", "false")
config.setProperty("hazelcast.socket.bind.any", "false")
config.setProperty("hazelcast.local.localAddress", "127.0.0.1")
config.getNetworkConfig().setPort(PORT)
config.getNetworkConfig().getJoin().getAutoDetectionConfig().setEnabled(False)
config.getNetworkConfig().getJoin().getMulticastConfig().setEnabled(False)
instance = jvm.java("com.hazelcast.core.Hazelcast").newHazelcastInstance(config)
"""

LOADER = """
loader = jvm.java("kvwal.log.MemoryLoader")(instance)
first, last = (0).to_bytes(4, "little"), (2**31 - 100).to_bytes(4, "little")
loader.load("jobs", "str", "str", b"key", first + last, b"", first + first, None)
try:
    loader.drain()
    print("whole")
except jpype.JException as error:
    print(error.getClass().getName())
instance.shutdown()
"""
"""What it is to load is a key that is longer than anything that memory can hold."""


def test_memory_that_ran_out_while_it_was_filled_is_not_whole() -> None:
    script = (INSTANCE + LOADER).replace("PORT", str(free_port()))
    assert said(script, "-XX:-ExitOnOutOfMemoryError") == ["java.lang.OutOfMemoryError"]


SAYS = """
thread = jvm.java("java.lang.Thread")
jvm.java("java.lang.System").err.println("one\\ntwo")
jvm.java("java.lang.System").out.println("three")
log = jvm.java("java.util.logging.Logger").getLogger("com.hazelcast.some")
log.severe("a \\"word\\"\\nand another line")
log.info("nobody hears it")
error = jvm.java("java.lang.IllegalStateException")("broken")
thread.getDefaultUncaughtExceptionHandler().uncaughtException(thread.currentThread(), error)
"""


def test_what_java_says_is_one_json_object_a_line() -> None:
    command = [sys.executable, "-c", BEGIN + SAYS]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [line["event"] for line in lines[:4]] == ["one", "two", "three", 'a "word"\nand another line']
    assert [line["level"] for line in lines] == ["warning"] * 3 + ["error"] * 2
    assert lines[3]["logger"] == "com.hazelcast.some"
    assert "has ended" in lines[4]["event"]
    assert lines[4]["exception"] == "java.lang.IllegalStateException: broken\n"
    assert ran.stdout == ""


LATEST = """
from concurrent.futures import ThreadPoolExecutor

queues, fence = jvm.java("kvwal.log.BatchQueues")(), jvm.java("kvwal.clock.OwnershipFence")()
context = jvm.java("kvwal.log.LogContext")(queues, None, fence, None)
stamped = memoryview(fence.stamped()).cast("B").cast("q")
queue = queues.open("jobs")
pipe = jvm.java("java.io.File").createTempFile("kvwal", "pipe")
queues.wakeBy(pipe.getPath())
entries = jvm.java("java.util.List").of(jpype.JArray(jpype.JByte)(b"entry"))

def post():
    \"\"\"Begin a change.\"\"\"
    queues.post(queue, entries, jvm.java("java.lang.Thread").currentThread())

def latest(millis=0):
    return int(context.latest(millis))

stamped[0] = 5
print(latest())
post()
print(latest())
number = queues.take() >> 32
post()
print(latest())
with ThreadPoolExecutor(1) as pool:
    answer = pool.submit(latest, 600_000)
    queues.complete(number, None, 7)
    print(latest())
    number = queues.take() >> 32
    stamped[0] = 9
    queues.complete(number, "StorageFull: no room", 0)
    print(answer.result(), latest())
fence.rise(12)
print(latest())
pipe.delete()
"""


def test_the_latest_timestamp_of_a_member_waits_for_the_changes_under_way() -> None:
    """A change that failed counts, as the log may have it, and so does what the owner before had given."""
    assert said(LATEST) == ["5", "-1", "-1", "-1", "9 9", "11"]


CLOCK = """
supplier = lambda call: jpype.JProxy("java.util.function.LongSupplier", dict={"getAsLong": call})
times = {"nanos": 0, "wall": 1_000_000}
steady = jvm.java("kvwal.clock.SteadyClock")(supplier(lambda: times["nanos"]), supplier(lambda: times["wall"]))

def pass_seconds(seconds, look=0.1):
    \"\"\"The time after each look.\"\"\"
    shown = []
    for _ in range(round(seconds / look)):
        times["nanos"] += round(look * 1e9)
        times["wall"] += round(look * 1e3)
        shown.append(int(steady.currentTimeMillis()))
    return shown

def step(seconds, within, look=0.1):
    \"\"\"The least and the greatest time between two looks after a step, and how far the clocks are apart in the end.\"\"\"
    before = int(steady.currentTimeMillis())
    times["wall"] += seconds * 1000
    shown = [before, *pass_seconds(within, look)]
    between = [later - sooner for sooner, later in zip(shown, shown[1:])]
    print(min(between), max(between), times["wall"] - shown[-1])

print(pass_seconds(1)[-1] - 1_000_000)
step(60, 300)
step(0, 310)
step(-60, 610)
step(60, 60, look=30)
step(-60, 1)
pass_seconds(1000)
step(3600, 1)
print(steady.toSystemCurrentTimeMillis(5))
times["wall"] += 7000
print(steady.toSystemCurrentTimeMillis(5))
"""


def test_the_clock_of_hazelcast_does_not_step() -> None:
    assert said(CLOCK) == [
        "1000",
        "110 110 30000",  # half of a step of 60 s after 300 s
        "100 110 0",
        "90 100 0",  # never back
        "30100 30100 59800",  # a member that stood still does not catch up at once, either
        "90 90 -100",
        "100 3600100 0",  # Hazelcast compensates for a step above two minutes by itself
        "5",
        "7005",
    ]


REPEATS = """
log = jvm.java("java.util.logging.Logger").getLogger("com.hazelcast.partition")
for number in range(1240):
    log.warning(f"Migration commit failed: uuid=09640ca9-5570-4dea-bac4-341eae43a891, partitionId={number}")
log.severe("another trouble")
jvm.java("kvwal.member.JsonLogFormatter").tellLeftOut()
"""


def test_what_java_says_over_and_over_is_counted() -> None:
    command = [sys.executable, "-c", BEGIN + REPEATS]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line)["event"] for line in ran.stderr.splitlines()]
    assert [line[-1] for line in lines[:10]] == list("0123456789")
    assert lines[10] == "another trouble"
    assert lines[11].startswith("1230 lines like an earlier one were left out: Migration commit failed")
    assert len(lines) == 12


WATCHES = """
import os
reader, writer = os.pipe()
watch = jvm.java("kvwal.member.ChangeWatch")(instance, ["told"], f"/dev/fd/{writer}")
told, other = instance.getMap("told"), instance.getMap("other")
for change in (lambda: told.set("a", 1), lambda: told.set("a", 2), lambda: told.remove("a")):
    change()
    print(len(os.read(reader, 10)))
watch.close()
told.set("a", 3)
instance.shutdown()
os.set_blocking(reader, False)
try:
    print(len(os.read(reader, 10)))
except BlockingIOError:
    print("nothing")
"""


def test_what_members_publish_wakes_the_loop_of_a_node() -> None:
    assert said((INSTANCE + WATCHES).replace("PORT", str(free_port()))) == ["1", "1", "1", "nothing"]


LOCKS = (
    INSTANCE
    + """
def accessible(thing):
    thing.setAccessible(True)
    return thing

engine = jvm.java("kvwal.node.HazelcastInternals").engine(instance)
instance.getMap("jobs").put("key", 1)
key = engine.toData("key")
partition = engine.getPartitionService().getPartitionId(key)
space = jvm.java("com.hazelcast.map.impl.MapService").getObjectNamespace("jobs")
support = engine.getService(jvm.java("com.hazelcast.internal.locksupport.LockSupportService").SERVICE_NAME)
store = support.getLockStore(partition, space)
expander = instance.getCluster().getLocalMember().getUuid()
kind = jvm.java("java.lang.Class").forName("kvwal.transactions.LeftLocks")
make = accessible(kind.getDeclaredConstructor(jvm.java("com.hazelcast.core.HazelcastInstance").class_))
left = make.newInstance(instance)
old = accessible(kind.getDeclaredMethod("old"))

def lock(number, ahead):
    store.txnLock(key, expander, -number, 0, -1, False)
    resource = store.getLock(key)
    taken = accessible(resource.getClass().getDeclaredField("acquireTime"))
    taken.setLong(resource, resource.getAcquireTime() + ahead)

for ahead in (3_600_000, -3_600_000):
    lock(7, ahead)
    looks = [old.invoke(left).size()]
    while not looks[-1]:
        looks.append(old.invoke(left).size())
    print(looks[0], looks[-1])
    store.unlock(key, expander, -7, 0)
    lock(8, ahead)
    print(old.invoke(left).size())
    store.unlock(key, expander, -8, 0)
    print(old.invoke(left).size())
instance.shutdown()
"""
)


@pytest.mark.long
def test_a_lock_is_as_old_as_this_member_has_seen_it() -> None:
    """The time in a lock is of the member that owned the key when it was taken, whose clock may be ahead or behind."""
    assert said(LOCKS.replace("PORT", str(free_port()))) == ["0 1", "0", "0"] * 2
