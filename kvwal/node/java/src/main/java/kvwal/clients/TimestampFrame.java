package kvwal.clients;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.map.impl.operation.TimestampResponse;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Frame after a response that tells the timestamp of the change: 8 bytes, little-endian, as all numbers of the protocol. A
 * client reads as many frames as it knows, so Hazelcast's own clients pass it over.
 */
final class TimestampFrame {
    private TimestampFrame() { }

    /** The message to the client, with the timestamp in the owner's response if the owner told it. */
    static ClientMessage append(ClientMessage message, Object response) {
        long timestamp = TimestampResponse.timestamp(response);
        if (timestamp > 0) {
            message.add(new ClientMessage.Frame(
                ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(timestamp).array()));
        }
        return message;
    }
}
