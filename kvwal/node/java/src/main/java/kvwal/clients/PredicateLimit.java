package kvwal.clients;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.codec.ContinuousQueryPublisherCreateCodec;
import com.hazelcast.client.impl.protocol.codec.ContinuousQueryPublisherCreateWithValueCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddEntryListenerToKeyWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddEntryListenerWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapAggregateWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapEntriesWithPagingPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapEntriesWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapExecuteWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapKeySetWithPagingPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapKeySetWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapProjectWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapRemoveAllCodec;
import com.hazelcast.client.impl.protocol.codec.MapValuesWithPagingPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapValuesWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.TransactionalMapKeySetWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.TransactionalMapValuesWithPredicateCodec;
import com.hazelcast.internal.serialization.Data;
import java.util.Map;
import java.util.function.Function;

/**
 * Limit of the bytes of a predicate: an object is made of it before any deadline holds, and Hazelcast's parser of SQL conditions
 * takes time with the square of their number.
 */
final class PredicateLimit {
    private static final int MOST = 256 << 10;
    private static final Map<Integer, Function<ClientMessage, Data>> PREDICATES = Map.ofEntries(
        Map.entry(MapKeySetWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapKeySetWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(MapValuesWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapValuesWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(MapEntriesWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapEntriesWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(MapKeySetWithPagingPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapKeySetWithPagingPredicateCodec.decodeRequest(it).predicate.getPredicateData()),
        Map.entry(MapValuesWithPagingPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapValuesWithPagingPredicateCodec.decodeRequest(it).predicate.getPredicateData()),
        Map.entry(MapEntriesWithPagingPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapEntriesWithPagingPredicateCodec.decodeRequest(it).predicate.getPredicateData()),
        Map.entry(MapProjectWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapProjectWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(MapAggregateWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapAggregateWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(MapExecuteWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapExecuteWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(MapRemoveAllCodec.REQUEST_MESSAGE_TYPE, it -> MapRemoveAllCodec.decodeRequest(it).predicate),
        Map.entry(MapAddEntryListenerWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapAddEntryListenerWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(MapAddEntryListenerToKeyWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> MapAddEntryListenerToKeyWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(TransactionalMapKeySetWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> TransactionalMapKeySetWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(TransactionalMapValuesWithPredicateCodec.REQUEST_MESSAGE_TYPE,
            it -> TransactionalMapValuesWithPredicateCodec.decodeRequest(it).predicate),
        Map.entry(ContinuousQueryPublisherCreateCodec.REQUEST_MESSAGE_TYPE,
            it -> ContinuousQueryPublisherCreateCodec.decodeRequest(it).predicate),
        Map.entry(ContinuousQueryPublisherCreateWithValueCodec.REQUEST_MESSAGE_TYPE,
            it -> ContinuousQueryPublisherCreateWithValueCodec.decodeRequest(it).predicate));

    private PredicateLimit() { }

    /** Why the predicate of this request is not looked at; null if it is, or there is none. */
    static String refusal(ClientMessage message) {
        Function<ClientMessage, Data> predicateOf = PREDICATES.get(message.getMessageType());
        Data predicate = predicateOf == null ? null : predicateOf.apply(message);
        return predicate == null || predicate.totalSize() <= MOST ? null
            : "TooLarge: the predicate has " + predicate.totalSize() + " bytes, more than " + (MOST >> 10)
                + " KiB; nothing was read. Use fewer conditions, or get_all for many keys.";
    }
}
