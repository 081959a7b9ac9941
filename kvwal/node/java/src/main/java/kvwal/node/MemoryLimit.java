package kvwal.node;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.codec.MapPutAllCodec;
import com.hazelcast.client.impl.protocol.codec.MapPutCodec;
import com.hazelcast.client.impl.protocol.codec.MapPutIfAbsentCodec;
import com.hazelcast.client.impl.protocol.codec.MapPutIfAbsentWithMaxIdleCodec;
import com.hazelcast.client.impl.protocol.codec.MapPutTransientCodec;
import com.hazelcast.client.impl.protocol.codec.MapPutTransientWithMaxIdleCodec;
import com.hazelcast.client.impl.protocol.codec.MapPutWithMaxIdleCodec;
import com.hazelcast.client.impl.protocol.codec.MapReplaceCodec;
import com.hazelcast.client.impl.protocol.codec.MapReplaceIfSameCodec;
import com.hazelcast.client.impl.protocol.codec.MapSetCodec;
import com.hazelcast.client.impl.protocol.codec.MapSetWithMaxIdleCodec;
import com.hazelcast.client.impl.protocol.codec.MapTryPutCodec;
import com.hazelcast.client.impl.protocol.codec.TransactionalMapPutCodec;
import com.hazelcast.client.impl.protocol.codec.TransactionalMapPutIfAbsentCodec;
import com.hazelcast.client.impl.protocol.codec.TransactionalMapReplaceCodec;
import com.hazelcast.client.impl.protocol.codec.TransactionalMapReplaceIfSameCodec;
import com.hazelcast.client.impl.protocol.codec.TransactionalMapSetCodec;
import com.hazelcast.core.HazelcastInstance;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Limit of what clients may put into memory: it is reached before the members that stay when one goes can hold all of it.
 *
 * It refuses requests of clients only. Members go on with what is under way: transactions, adoption, backups. What is refused
 * takes no room: a request that is too large leaves it to smaller ones.
 */
public final class MemoryLimit {
    private static final String SERVICE = "kvwal.memory";
    private static final Set<Integer> PUTS = Set.of(
        MapPutCodec.REQUEST_MESSAGE_TYPE, MapPutWithMaxIdleCodec.REQUEST_MESSAGE_TYPE, MapSetCodec.REQUEST_MESSAGE_TYPE,
        MapSetWithMaxIdleCodec.REQUEST_MESSAGE_TYPE, MapPutIfAbsentCodec.REQUEST_MESSAGE_TYPE,
        MapPutIfAbsentWithMaxIdleCodec.REQUEST_MESSAGE_TYPE,
        MapPutTransientCodec.REQUEST_MESSAGE_TYPE, MapPutTransientWithMaxIdleCodec.REQUEST_MESSAGE_TYPE,
        MapReplaceCodec.REQUEST_MESSAGE_TYPE, MapReplaceIfSameCodec.REQUEST_MESSAGE_TYPE, MapTryPutCodec.REQUEST_MESSAGE_TYPE,
        TransactionalMapPutCodec.REQUEST_MESSAGE_TYPE, TransactionalMapPutIfAbsentCodec.REQUEST_MESSAGE_TYPE,
        TransactionalMapReplaceCodec.REQUEST_MESSAGE_TYPE, TransactionalMapReplaceIfSameCodec.REQUEST_MESSAGE_TYPE,
        TransactionalMapSetCodec.REQUEST_MESSAGE_TYPE);
    /** What an entry takes in memory beside its bytes. */
    private static final int OVERHEAD = 200;
    /** Frames of a message of many entries beside its keys and values. */
    private static final int OTHER_FRAMES = 4;
    private static final long LATE_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final double MIB = 1 << 20;

    private final AtomicLong left = new AtomicLong(Long.MAX_VALUE);
    private volatile Look look = new Look(Long.MAX_VALUE, "", "", System.nanoTime());

    /** What the last look of this member at its memory has told. */
    private record Look(long bytes, String memory, String hint, long at) { }

    private MemoryLimit() { }

    /** The limit of a member. */
    public static MemoryLimit of(HazelcastInstance instance) {
        return (MemoryLimit) instance.getUserContext().computeIfAbsent(SERVICE, name -> new MemoryLimit());
    }

    /**
     * Sets how many bytes of puts this member takes until the next call. `memory` is the part of a refusal that says what memory
     * holds, `hint` what to do where nothing is taken.
     */
    public void allow(long bytes, String memory, String hint) {
        look = new Look(bytes, memory, hint, System.nanoTime());
        left.set(bytes);
    }

    /** Whether this member has to look soon: the heap has `used` bytes or more, or clients took half of what `allow` allowed. */
    public boolean isNear(long used) {
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory() >= used || left.get() < look.bytes / 2;
    }

    /** Why this request is refused; null if it is not: it puts nothing, or there is room. A transaction calls `take` itself. */
    public String refusal(ClientMessage message) {
        int type = message.getMessageType();
        if (PUTS.contains(type)) {
            return refusal(1, message.getFrameLength());
        }
        return type == MapPutAllCodec.REQUEST_MESSAGE_TYPE ? refusal(entries(message), message.getFrameLength()) : null;
    }

    /** Takes room for this many entries of this many bytes; throws NotWritten if there is none. */
    public void take(long entries, long bytes) {
        String refusal = entries == 0 ? null : refusal(entries, bytes);
        if (refusal != null) {
            throw new NotWritten(refusal);
        }
    }

    /** The number of entries of a message that puts many: each has a frame for its key, and one for its value. */
    private static long entries(ClientMessage message) {
        long frames = -OTHER_FRAMES;
        for (ClientMessage.Frame frame = message.getStartFrame(); frame != null; frame = frame.next) {
            frames++;
        }
        return Math.max(1, frames / 2);
    }

    private String refusal(long entries, long payload) {
        long bytes = payload + entries * OVERHEAD;
        long found = left.getAndUpdate(room -> room < bytes ? room : room - bytes);
        return found < bytes ? refusal(bytes, found, look) : null;
    }

    private static String refusal(long bytes, long found, Look look) {
        if (look.bytes == 0) {
            return "StorageFull: " + look.memory + "; nothing was written. " + look.hint;
        }
        long old = System.nanoTime() - look.at;
        String late = old < LATE_NANOS ? ""
            : " Its last look was " + TimeUnit.NANOSECONDS.toSeconds(old) + " s ago: the other members may be slow.";
        return String.format(Locale.ROOT, "StorageFull: puts that take %.1f MiB of memory are too many at once: this member takes"
            + " %.1f MiB more until it has looked at its memory again, where %s; nothing was written.%s Put fewer entries at a"
            + " time, or try again in a moment. If it goes on: %s", bytes / MIB, found / MIB, look.memory, late, look.hint);
    }
}
