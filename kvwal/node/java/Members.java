package kvwal.node;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.instance.impl.HazelcastInstanceImpl;
import com.hazelcast.instance.impl.HazelcastInstanceProxy;
import com.hazelcast.instance.impl.Node;
import com.hazelcast.spi.impl.NodeEngineImpl;

/** The way from what Hazelcast hands out to what is inside. */
final class Members {
    private Members() { }

    static Node node(HazelcastInstance instance) {
        HazelcastInstanceImpl own = instance instanceof HazelcastInstanceProxy
            ? ((HazelcastInstanceProxy) instance).getOriginal() : (HazelcastInstanceImpl) instance;
        return own.node;
    }

    static NodeEngineImpl engine(HazelcastInstance instance) {
        return node(instance).getNodeEngine();
    }
}
