package com.hazelcast.client.impl.protocol.task;

import com.hazelcast.client.impl.ClientEngine;
import com.hazelcast.client.impl.protocol.ClientMessage;
import com.hazelcast.config.Config;
import com.hazelcast.instance.BuildInfo;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.instance.impl.NodeExtension;
import com.hazelcast.internal.cluster.impl.ClusterServiceImpl;
import com.hazelcast.internal.nio.Connection;
import com.hazelcast.internal.serialization.InternalSerializationService;
import com.hazelcast.logging.ILogger;
import com.hazelcast.map.impl.MapService;
import com.hazelcast.spi.impl.NodeEngine;
import kvwal.node.ReadyGate;

/**
 * Stands before Hazelcast's class of this name on the class path: what a client asks and a thread of the member answers, all keys,
 * values or entries of a map among it. While memory is loading, the client hears so at once (see ReadyGate).
 */
public abstract class AbstractCallableMessageTask<P> extends AbstractMessageTask<P> {
    protected AbstractCallableMessageTask(ClientMessage message, Node node, Connection connection) {
        super(message, node, connection);
    }

    protected AbstractCallableMessageTask(ClientMessage message, ILogger logger, NodeEngine engine,
                                          InternalSerializationService serialization, ClientEngine clients, Connection connection,
                                          NodeExtension extension, BuildInfo build, Config config, ClusterServiceImpl cluster) {
        super(message, logger, engine, serialization, clients, connection, extension, build, config, cluster);
    }

    @Override
    public final void processMessage() throws Exception {
        if (MapService.SERVICE_NAME.equals(getServiceName())) {
            ReadyGate.checkLoaded(nodeEngine.getHazelcastInstance(), getDistributedObjectName());
        }
        sendResponse(call());
    }

    protected abstract Object call() throws Exception;
}
