package kvwal.clients;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.task.map.MapDeleteMessageTask;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.map.impl.operation.DeleteOperation;
import com.hazelcast.map.impl.operation.TimestampResponse;
import com.hazelcast.spi.impl.operationservice.Operation;

/** A client's delete from a map with a log. The answer tells the timestamp of the delete. */
final class TimestampedDelete extends MapDeleteMessageTask {
    TimestampedDelete(ClientMessage message, Node node) {
        super(message, node, message.getConnection());
    }

    @Override
    protected Operation prepareOperation() {
        DeleteOperation operation = TimestampResponse.delete(parameters.name, parameters.key);
        operation.setThreadId(parameters.threadId);
        return operation;
    }

    @Override
    protected ClientMessage encodeResponse(Object response) {
        return TimestampFrame.append(super.encodeResponse(TimestampResponse.isDeleted(response)), response);
    }
}
