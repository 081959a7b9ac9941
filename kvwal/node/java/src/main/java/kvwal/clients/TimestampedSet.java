package kvwal.clients;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.task.map.MapSetMessageTask;
import com.hazelcast.instance.impl.Node;

/** A client's put into a map with a log. The answer tells the timestamp of the put. */
final class TimestampedSet extends MapSetMessageTask {
    TimestampedSet(ClientMessage message, Node node) {
        super(message, node, message.getConnection());
    }

    @Override
    protected ClientMessage encodeResponse(Object response) {
        return TimestampFrame.append(super.encodeResponse(response), response);
    }
}
