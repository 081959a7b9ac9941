package kvwal.clients;

import com.hazelcast.client.impl.protocol.ClientMessage.Frame;
import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.codec.ClientCreateProxiesCodec;
import com.hazelcast.client.impl.protocol.codec.ClientCreateProxyCodec;
import com.hazelcast.client.impl.protocol.codec.ClientDeployClassesCodec;
import com.hazelcast.client.impl.protocol.codec.ClientDestroyProxyCodec;
import com.hazelcast.client.impl.protocol.codec.ContinuousQueryPublisherCreateCodec;
import com.hazelcast.client.impl.protocol.codec.ContinuousQueryPublisherCreateWithValueCodec;
import com.hazelcast.client.impl.protocol.codec.ExecutorServiceSubmitToMemberCodec;
import com.hazelcast.client.impl.protocol.codec.ExecutorServiceSubmitToPartitionCodec;
import com.hazelcast.client.impl.protocol.codec.MCShutdownMemberCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddEntryListenerCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddEntryListenerToKeyCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddEntryListenerToKeyWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddEntryListenerWithPredicateCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddInterceptorCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddNearCacheInvalidationListenerCodec;
import com.hazelcast.client.impl.protocol.codec.MapAddPartitionLostListenerCodec;
import com.hazelcast.client.impl.protocol.codec.MapRemoveEntryListenerCodec;
import com.hazelcast.client.impl.protocol.codec.MapRemoveInterceptorCodec;
import com.hazelcast.client.impl.protocol.codec.MapRemovePartitionLostListenerCodec;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.serialization.impl.SerializationConstants;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import kvwal.node.LoggedMaps;
import kvwal.node.TaskIds;

/**
 * Rules for a client's request: it is served if a map with a log answers it, or if the node's file names its service as volatile.
 *
 * An unknown kind of request is refused, so a new service of Hazelcast cannot take writes that no log has.
 */
public final class ServicePolicy {
    private static final String EXECUTOR = "executor";
    private static final String RELIABLE_TOPIC = "reliable-topic";
    private static final String INTERNAL = "__";
    /** Prefix of the ringbuffers of reliable topics. */
    private static final String TOPIC_RING = "_hz_rb_";
    private static final int SERVICE_BITS = 16;
    private static final int CLIENT = 0x00;
    private static final int MAP = 0x01;
    private static final int TOPIC = 0x04;
    private static final int EXECUTOR_SERVICE = 0x08;
    private static final int TRANSACTIONAL_MAP = 0x0E;
    private static final int TRANSACTION = 0x15;
    private static final int QUERY_CACHE = 0x16;
    private static final int RINGBUFFER = 0x17;
    private static final int FLAKE_ID = 0x1C;
    private static final int SQL = 0x21;
    /** Services that have nothing to lose, or have a log; a map by its name. */
    private static final Set<Integer> SERVED =
        Set.of(CLIENT, MAP, TOPIC, TRANSACTIONAL_MAP, TRANSACTION, QUERY_CACHE, FLAKE_ID);
    /** Requests of query caches that read entries. */
    private static final Set<Integer> PUBLISHERS = Set.of(
        ContinuousQueryPublisherCreateCodec.REQUEST_MESSAGE_TYPE,
        ContinuousQueryPublisherCreateWithValueCodec.REQUEST_MESSAGE_TYPE);
    private static final Set<Integer> REGISTRATIONS = Set.of(
        MapAddEntryListenerCodec.REQUEST_MESSAGE_TYPE, MapAddEntryListenerToKeyCodec.REQUEST_MESSAGE_TYPE,
        MapAddEntryListenerToKeyWithPredicateCodec.REQUEST_MESSAGE_TYPE,
        MapAddEntryListenerWithPredicateCodec.REQUEST_MESSAGE_TYPE,
        MapAddInterceptorCodec.REQUEST_MESSAGE_TYPE, MapAddNearCacheInvalidationListenerCodec.REQUEST_MESSAGE_TYPE,
        MapAddPartitionLostListenerCodec.REQUEST_MESSAGE_TYPE, MapRemoveEntryListenerCodec.REQUEST_MESSAGE_TYPE,
        MapRemoveInterceptorCodec.REQUEST_MESSAGE_TYPE, MapRemovePartitionLostListenerCodec.REQUEST_MESSAGE_TYPE);
    private static final Set<Integer> BY_MAP = Set.of(MAP, TRANSACTIONAL_MAP, QUERY_CACHE);
    /** Name in the node's file of each service that can be allowed there. */
    private static final Map<Integer, String> OPTIONAL = Map.ofEntries(
        Map.entry(0x02, "multi-map"), Map.entry(0x0F, "multi-map"), Map.entry(0x03, "queue"), Map.entry(0x12, "queue"),
        Map.entry(0x05, "list"), Map.entry(0x11, "list"), Map.entry(0x06, "set"), Map.entry(0x10, "set"),
        Map.entry(EXECUTOR_SERVICE, EXECUTOR), Map.entry(0x0D, "replicated-map"), Map.entry(0x13, "cache"),
        Map.entry(0x14, "xa"), Map.entry(RINGBUFFER, "ringbuffer"), Map.entry(0x18, "durable-executor"),
        Map.entry(0x19, "cardinality-estimator"), Map.entry(0x1A, "scheduled-executor"), Map.entry(0x1D, "pn-counter"));
    private static final Map<String, String> BY_SERVICE = Map.ofEntries(
        Map.entry("hz:impl:multiMapService", "multi-map"), Map.entry("hz:impl:queueService", "queue"),
        Map.entry("hz:impl:listService", "list"), Map.entry("hz:impl:setService", "set"),
        Map.entry("hz:impl:executorService", EXECUTOR), Map.entry("hz:impl:replicatedMapService", "replicated-map"),
        Map.entry("hz:impl:cacheService", "cache"), Map.entry("hz:impl:xaService", "xa"),
        Map.entry("hz:impl:ringbufferService", "ringbuffer"), Map.entry("hz:impl:reliableTopicService", RELIABLE_TOPIC),
        Map.entry("hz:impl:durableExecutorService", "durable-executor"),
        Map.entry("hz:impl:cardinalityEstimatorService", "cardinality-estimator"),
        Map.entry("hz:impl:scheduledExecutorService", "scheduled-executor"), Map.entry("hz:impl:PNCounterService", "pn-counter"));
    private static final Set<String> SERVED_SERVICES =
        Set.of("hz:impl:topicService", "hz:impl:flakeIdGeneratorService", "hz:impl:sqlService");
    /** Hazelcast's own answer advises to enable Jet, with which a client can send programs that members run. */
    private static final String NO_SQL = "A node of kvwal takes no SQL from clients; nothing was read or written."
        + " Ask the map with a predicate, or the node's root with `kvwal query ROOT \"SELECT ...\"`.";
    private static final String MAP_SERVICE = "hz:impl:mapService";

    /** Gives clients access to the members' own maps and executors: for tests, and for repairs by hand. */
    private static final boolean INSPECTED = Boolean.getBoolean("kvwal.inspect");

    private final Set<String> volatiles;

    /** `volatiles`: the services that the node's file allows. */
    public ServicePolicy(String[] volatiles) {
        this.volatiles = Set.of(volatiles);
    }

    /** Why this request is not served; null if it is. */
    String refusal(ClientMessage message) {
        int type = message.getMessageType();
        int service = type >> SERVICE_BITS;
        if (type == ClientCreateProxyCodec.REQUEST_MESSAGE_TYPE) {
            ClientCreateProxyCodec.RequestParameters proxy = ClientCreateProxyCodec.decodeRequest(message);
            return ofProxy(proxy.serviceName, proxy.name);
        }
        if (type == ClientDestroyProxyCodec.REQUEST_MESSAGE_TYPE) {
            ClientDestroyProxyCodec.RequestParameters proxy = ClientDestroyProxyCodec.decodeRequest(message);
            return ofProxy(proxy.serviceName, proxy.name);
        }
        if (type == ClientDeployClassesCodec.REQUEST_MESSAGE_TYPE) {
            return "A node of kvwal takes no classes from clients; nothing was read or written.";
        }
        if (service == SQL) {
            return NO_SQL;
        }
        if (BY_MAP.contains(service)) {
            return isInternal(message) ? ofMap(name(message)) : null;
        }
        if (SERVED.contains(service) || type == MCShutdownMemberCodec.REQUEST_MESSAGE_TYPE) {
            return null;
        }
        String optional = OPTIONAL.get(service);
        if (optional == null) {
            return "A node of kvwal does not serve this kind of request (number 0x" + Integer.toHexString(type)
                + "); nothing was read or written. Maps are served: see docs/cluster.md.";
        }
        return service == EXECUTOR_SERVICE ? ofExecutor(message) : ofOptional(optional, name(message));
    }

    /** A client that reconnects names all of its objects: its request without those that are not served. */
    ClientMessage onlyServed(ClientMessage message) {
        if (message.getMessageType() != ClientCreateProxiesCodec.REQUEST_MESSAGE_TYPE) {
            return message;
        }
        List<Map.Entry<String, String>> proxies = new ArrayList<>(ClientCreateProxiesCodec.decodeRequest(message));
        proxies.removeIf(proxy -> ofProxy(proxy.getValue(), proxy.getKey()) != null);
        ClientMessage less = ClientCreateProxiesCodec.encodeRequest(proxies);
        less.setCorrelationId(message.getCorrelationId());
        less.setConnection(message.getConnection());
        return less;
    }

    private String ofProxy(String service, String name) {
        if (MAP_SERVICE.equals(service)) {
            return ofMap(name);
        }
        String optional = BY_SERVICE.get(service);
        if (optional != null) {
            return EXECUTOR.equals(optional) && (INSPECTED || isOwnExecutor(name)) ? null : ofOptional(optional, name);
        }
        return SERVED_SERVICES.contains(service) ? null
            : "A node of kvwal does not serve " + service + "; nothing was made. Maps are served: see docs/cluster.md.";
    }

    private static String ofMap(String name) {
        return name.startsWith(INTERNAL) && !INSPECTED
            ? "The map " + name + " is the members' own: names that begin with " + INTERNAL
                + " have no log. Nothing was read or written. Choose another name, or one that begins with tmp. for memory only."
            : null;
    }

    private String ofOptional(String optional, String name) {
        if (volatiles.contains(optional) || name.startsWith(TOPIC_RING) && volatiles.contains(RELIABLE_TOPIC)) {
            return null;
        }
        String instead = "queue".equals(optional) ? "the queues of kvwal.connect (docs/queues.md), or a map" : "a map";
        return "Objects of the service " + optional + " have no log in kvwal: a crash would lose what they hold. Nothing was read"
            + " or written. Use " + instead + ", or allow the service as memory only: volatile = [\"" + optional
            + "\"] in every node's file.";
    }

    /** kvwal's own executors run kvwal's own tasks only. */
    private String ofExecutor(ClientMessage message) {
        String name = name(message);
        if (INSPECTED || volatiles.contains(EXECUTOR)) {
            return null;
        }
        if (!isOwnExecutor(name)) {
            return ofOptional(EXECUTOR, name);
        }
        switch (message.getMessageType()) {
            case ExecutorServiceSubmitToPartitionCodec.REQUEST_MESSAGE_TYPE:
                return ofTask(ExecutorServiceSubmitToPartitionCodec.decodeRequest(message).callable, name);
            case ExecutorServiceSubmitToMemberCodec.REQUEST_MESSAGE_TYPE:
                return ofTask(ExecutorServiceSubmitToMemberCodec.decodeRequest(message).callable, name);
            default:
                return "The executor " + name + " is the members' own: a client may not end it or cancel its tasks.";
        }
    }

    private static boolean isOwnExecutor(String name) {
        return TaskIds.TRANSACTIONS.equals(name) || TaskIds.HISTORY.equals(name);
    }

    private static String ofTask(Data task, String name) {
        return isOfClients(task.getType(), task.toByteArray()) ? null
            : "The executor " + name + " runs kvwal's own tasks only; nothing was run.";
    }

    /** Reads the first bytes of an IdentifiedDataSerializable: a flag, the number of its factory, its own number. */
    private static boolean isOfClients(int type, byte[] data) {
        ByteBuffer bytes = ByteBuffer.wrap(data);
        int head = 2 * Integer.BYTES;
        return type == SerializationConstants.CONSTANT_TYPE_DATA_SERIALIZABLE && data.length >= head + 1 + 2 * Integer.BYTES
            && (bytes.get(head) & 1) != 0 && bytes.getInt(head + 1) == TaskIds.FACTORY
            && TaskIds.isOfClients(bytes.getInt(head + 1 + Integer.BYTES));
    }

    /** Whether this is a request on one map with a log. */
    static boolean isOfLoggedMap(ClientMessage message) {
        Frame first = message.getStartFrame().next;
        int type = message.getMessageType();
        boolean isOfMap = type >> SERVICE_BITS == MAP || PUBLISHERS.contains(type);
        return isOfMap && first != null && first.content.length > 0 && LoggedMaps.has(first.content);
    }

    /** Whether a request on a map needs no entry of it: it registers or removes a listener or an interceptor. */
    static boolean isRegistration(ClientMessage message) {
        return REGISTRATIONS.contains(message.getMessageType());
    }

    /** As `ofMap`, without decoding the name of every request. */
    private static boolean isInternal(ClientMessage message) {
        Frame first = message.getStartFrame().next;
        return first != null && first.content.length > 1 && first.content[0] == '_' && first.content[1] == '_';
    }

    /** Name of the object of a request: its first text. */
    static String name(ClientMessage message) {
        Frame first = message.getStartFrame().next;
        return first == null ? "" : new String(first.content, StandardCharsets.UTF_8);
    }
}
