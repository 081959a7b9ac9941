package kvwal.locks;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.task.map.MapForceUnlockMessageTask;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.spi.impl.operationservice.Operation;

/** A client's `force_unlock`. Hazelcast's own would end the lock of a transaction. */
public final class ForceUnlockRequest extends MapForceUnlockMessageTask {
    public ForceUnlockRequest(ClientMessage message, Node node) {
        super(message, node, message.getConnection());
    }

    @Override
    protected Operation prepareOperation() {
        return new ForceUnlock(parameters.name, parameters.key);
    }

    @Override
    public String getServiceName() {
        return MapService.SERVICE_NAME;
    }
}
