package com.hazelcast.client.impl.protocol.task.map;

import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.client.impl.protocol.task.AbstractPartitionMessageTask;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.internal.nio.Connection;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.map.impl.MapServiceContext;
import com.hazelcast.map.impl.operation.MapOperationProvider;
import com.hazelcast.spi.impl.operationservice.Operation;
import java.util.concurrent.CompletableFuture;
import kvwal.log.LogStore;
import kvwal.node.ReadyGate;

/**
 * Stands before Hazelcast's class of this name on the class path: what a client asks of one key of a map.
 *
 * Hazelcast's lets the client wait for the backups, and by default a client that has waited five seconds for one takes the change
 * for done, although only a member that is cut off may have it. Of a map with a log the owner waits, whatever client asks, and
 * says so if a backup did not answer. And while memory is loading, the client hears so at once (see ReadyGate).
 */
abstract class AbstractMapPartitionMessageTask<P> extends AbstractPartitionMessageTask<P> {
    AbstractMapPartitionMessageTask(ClientMessage message, Node node, Connection connection) {
        super(message, node, connection);
    }

    @Override
    protected CompletableFuture<Object> processInternal() {
        String map = getDistributedObjectName();
        if (!LogStore.has(map)) {
            return super.processInternal();
        }
        ReadyGate.checkLoaded(nodeEngine.getHazelcastInstance(), map);
        Operation operation = prepareOperation().setCallerUuid(endpoint.getUuid());
        return nodeEngine.getOperationService().createInvocationBuilder(getServiceName(), operation, getPartitionId())
            .setResultDeserialized(false).invoke();
    }

    protected final MapOperationProvider getMapOperationProvider(String map) {
        return getMapServiceContext().getMapOperationProvider(map);
    }

    protected MapServiceContext getMapServiceContext() {
        return ((MapService) getService(MapService.SERVICE_NAME)).getMapServiceContext();
    }

    @Override
    protected final String getUserCodeNamespace() {
        return MapService.lookupNamespace(nodeEngine, getDistributedObjectName());
    }
}
