package kvwal.clients;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.codec.MapPutIfAbsentWithMaxIdleCodec;
import com.hazelcast.client.impl.protocol.codec.MapPutTransientWithMaxIdleCodec;
import com.hazelcast.client.impl.protocol.codec.MapPutWithMaxIdleCodec;
import com.hazelcast.client.impl.protocol.codec.MapSetWithMaxIdleCodec;

/**
 * Refusal of an idle time for an entry of a map with a log. Hazelcast would tell the log the sooner of both ends of the entry, as
 * if it was a time to live. A read does not reach the log: an entry that is read all the time would be gone after a restart.
 */
final class IdleTime {
    private static final String REFUSAL = "An entry of a map with a log takes no idle time (max_idle): reads do not reach the"
        + " log. Nothing was written. Give it a time to live (ttl), or use a map whose name begins with tmp.";

    private IdleTime() { }

    /** Why this request is refused; null if it sets no idle time. */
    static String refusal(ClientMessage message) {
        return ofEntry(message) > 0 ? REFUSAL : null;
    }

    private static long ofEntry(ClientMessage message) {
        switch (message.getMessageType()) {
            case MapPutWithMaxIdleCodec.REQUEST_MESSAGE_TYPE:
                return MapPutWithMaxIdleCodec.decodeRequest(message).maxIdle;
            case MapSetWithMaxIdleCodec.REQUEST_MESSAGE_TYPE:
                return MapSetWithMaxIdleCodec.decodeRequest(message).maxIdle;
            case MapPutIfAbsentWithMaxIdleCodec.REQUEST_MESSAGE_TYPE:
                return MapPutIfAbsentWithMaxIdleCodec.decodeRequest(message).maxIdle;
            case MapPutTransientWithMaxIdleCodec.REQUEST_MESSAGE_TYPE:
                return MapPutTransientWithMaxIdleCodec.decodeRequest(message).maxIdle;
            default:
                return 0;
        }
    }
}
