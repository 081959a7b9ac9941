package kvwal.codec;

import com.hazelcast.internal.serialization.Data;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Column of byte strings, one after the other: offsets (int32, little-endian) say where each begins and the last one ends. */
public final class Column {
    private final byte[] bytes;
    private final ByteBuffer offsets;
    private final int base;

    public Column(byte[] bytes, byte[] offsets) {
        this.bytes = bytes;
        this.offsets = ByteBuffer.wrap(offsets).order(ByteOrder.LITTLE_ENDIAN);
        this.base = this.offsets.getInt(0);
    }

    public int count() {
        return offsets.capacity() / 4 - 1;
    }

    /** The byte string at `i` of a log class, in Hazelcast's serialized form. */
    public Data get(String name, int i) {
        int from = offsets.getInt(4 * i);
        return ValueCodec.toData(name, bytes, from - base, offsets.getInt(4 * i + 4) - from);
    }
}
