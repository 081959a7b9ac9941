package kvwal.clients;

import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;
import com.hazelcast.query.Predicate;
import com.hazelcast.query.impl.QueryableEntry;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import kvwal.codec.ValueCodec;
import kvwal.node.TaskIds;

/**
 * Predicate of the entries of some structures of a business, by the class of their keys (kvwal/key_class.py): the class begins
 * with a text. An empty text selects the entries of the business's own map. It makes no object of a key.
 */
public final class OfStructure implements Predicate<Object, Object>, IdentifiedDataSerializable {
    private static final int TYPE_AT = 4;
    private static final int NAME_AT = 9;
    private static final char END_OF_STRUCTURE = ':';

    private String prefix;

    public OfStructure() { }

    public OfStructure(String prefix) {
        this.prefix = prefix;
    }

    @Override
    public boolean apply(Map.Entry<Object, Object> entry) {
        String name = foreignClass(((QueryableEntry<?, ?>) entry).getKeyData().toByteArray());
        boolean isOwnMap = name.indexOf(END_OF_STRUCTURE) < 0;
        return prefix.isEmpty() ? isOwnMap : !isOwnMap && name.startsWith(prefix);
    }

    /** The class of a key that Hazelcast has no type for; empty for every other key. */
    private static String foreignClass(byte[] key) {
        if (key.length < NAME_AT || ByteBuffer.wrap(key).getInt(TYPE_AT) != ValueCodec.FOREIGN) {
            return "";
        }
        int size = Math.min(key[NAME_AT - 1], key.length - NAME_AT);
        return size <= 0 ? "" : new String(key, NAME_AT, size, StandardCharsets.US_ASCII);
    }

    @Override
    public int getFactoryId() {
        return TaskIds.FACTORY;
    }

    @Override
    public int getClassId() {
        return TaskIds.OF_STRUCTURE;
    }

    @Override
    public void writeData(ObjectDataOutput out) throws IOException {
        out.writeString(prefix);
    }

    @Override
    public void readData(ObjectDataInput in) throws IOException {
        prefix = in.readString();
    }
}
