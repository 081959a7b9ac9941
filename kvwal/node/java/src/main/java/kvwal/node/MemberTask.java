package kvwal.node;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceAware;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;

/** Base of kvwal's tasks: sent to a member, and run there. TaskFactory makes each by its number in TaskIds. */
public abstract class MemberTask implements IdentifiedDataSerializable, HazelcastInstanceAware {
    /** The member on which the task runs. */
    protected transient HazelcastInstance instance;

    @Override
    public void setHazelcastInstance(HazelcastInstance here) {
        instance = here;
    }

    @Override
    public int getFactoryId() {
        return TaskIds.FACTORY;
    }
}
