package kvwal.clock;

import com.hazelcast.internal.util.Clock;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * Clock of Hazelcast in this process: the time of the machine's clock without its steps.
 *
 * Hazelcast judges a heartbeat by the time that its sender gives, which follows the clock of the oldest member. If one clock
 * steps, members whose clocks are right take each other's heartbeats for old, and give each other up. So a step does not show
 * here: this clock runs a tenth faster or slower until it has caught up. A step above `MOST_MILLIS` shows at once. Hazelcast
 * itself compensates for steps above two minutes.
 */
public final class SteadyClock extends Clock.ClockImpl {
    static final long MOST_MILLIS = 150_000;
    private static final long LOOK_NANOS = 100_000_000;
    private static final long LONGEST_NANOS = 10 * LOOK_NANOS;
    private static final long NANOS_PER_MILLI = 1_000_000;
    private static final int SLOWER = 10;
    private static final long APART_MILLIS = 1000;

    private final LongSupplier nanos;
    private final LongSupplier wall;
    private final AtomicLong looked;
    private volatile long offset;

    /** For Hazelcast, which makes it by its name. */
    public SteadyClock() {
        this(System::nanoTime, System::currentTimeMillis);
    }

    /** `nanos` never steps; `wall` is the machine's clock, in ms. */
    public SteadyClock(LongSupplier nanos, LongSupplier wall) {
        this.nanos = nanos;
        this.wall = wall;
        long now = nanos.getAsLong();
        looked = new AtomicLong(now);
        offset = wall.getAsLong() - now / NANOS_PER_MILLI;
    }

    @Override
    public long currentTimeMillis() {
        long now = nanos.getAsLong();
        long since = looked.get();
        if (now - since >= LOOK_NANOS && looked.compareAndSet(since, now)) {
            long behind = wall.getAsLong() - now / NANOS_PER_MILLI - offset;
            long most = Math.min(now - since, LONGEST_NANOS) / NANOS_PER_MILLI / SLOWER;
            offset += Math.abs(behind) > MOST_MILLIS ? behind : Math.max(-most, Math.min(most, behind));
        }
        return now / NANOS_PER_MILLI + offset;
    }

    /** The time by the machine's clock, which the logs go by. The same while the two clocks are less than a second apart. */
    @Override
    public long toSystemCurrentTimeMillis(long millis) {
        long apart = wall.getAsLong() - currentTimeMillis();
        return Math.abs(apart) < APART_MILLIS ? millis : millis + apart;
    }
}
