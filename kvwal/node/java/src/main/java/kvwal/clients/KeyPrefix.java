package kvwal.clients;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;
import com.hazelcast.query.Predicate;
import com.hazelcast.query.QueryException;
import com.hazelcast.query.impl.QueryableEntry;
import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import kvwal.node.TaskIds;

/**
 * Predicate of the entries whose key is text and begins with some bytes. It compares serialized keys, so it makes no object of a
 * key, and a map may have keys of other classes too.
 *
 * It may have a limit for the bytes of the values that it accepts on one member. Beyond the limit the query fails, and the client
 * asks for the keys instead: an answer with values would be one message of any size.
 */
public final class KeyPrefix implements Predicate<Object, Object>, IdentifiedDataSerializable {
    /** Type number of text, big-endian, after the partition hash; the length of the text and its UTF-8 follow. */
    private static final int TYPE_AT = 4;
    private static final int TEXT_AT = 12;
    private static final byte[] TEXT = {-1, -1, -1, -11};

    private final AtomicLong accepted = new AtomicLong();
    private byte[] prefix;
    /** 0: no limit. */
    private long limit;

    @Override
    public boolean apply(Map.Entry<Object, Object> entry) {
        QueryableEntry<?, ?> stored = (QueryableEntry<?, ?>) entry;
        byte[] key = stored.getKeyData().toByteArray();
        int end = TEXT_AT + prefix.length;
        if (key.length < end || !Arrays.equals(key, TEXT_AT, end, prefix, 0, prefix.length)
                || !Arrays.equals(key, TYPE_AT, TYPE_AT + TEXT.length, TEXT, 0, TEXT.length)) {
            return false;
        }
        if (limit > 0 && accepted.addAndGet(stored.getValueData().totalSize()) > limit) {
            throw new QueryException("The values have more than " + limit + " bytes on a member; nothing was read."
                + " Ask for the keys.");
        }
        return true;
    }

    @Override
    public int getFactoryId() {
        return TaskIds.FACTORY;
    }

    @Override
    public int getClassId() {
        return TaskIds.KEY_PREFIX;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeByteArray(prefix);
        out.writeLong(limit);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        prefix = in.readByteArray();
        limit = in.readLong();
    }
}
