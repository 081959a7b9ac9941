package kvwal.member;

import com.hazelcast.cluster.MembershipEvent;
import com.hazelcast.cluster.MembershipListener;
import com.hazelcast.core.EntryEvent;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.map.listener.EntryAddedListener;
import com.hazelcast.map.listener.EntryRemovedListener;
import com.hazelcast.map.listener.EntryUpdatedListener;
import java.io.FileOutputStream;
import java.io.IOException;

/**
 * Watch over the members and what they publish to each other. It wakes the node's event loop by a byte in a pipe, so that an idle
 * node need not ask for news all the time. An event may be lost with a member that goes: the loop asks now and then all the same.
 */
public final class ChangeWatch implements MembershipListener, EntryAddedListener<Object, Object>,
        EntryUpdatedListener<Object, Object>, EntryRemovedListener<Object, Object> {
    private final FileOutputStream wakeup;

    /** Begins to watch these maps of the members. The loop waits for a byte in the pipe at `path`. */
    public ChangeWatch(HazelcastInstance instance, String[] maps, String path) throws IOException {
        wakeup = new FileOutputStream(path);
        instance.getCluster().addMembershipListener(this);
        for (String map : maps) {
            instance.getMap(map).addEntryListener(this, false);
        }
    }

    /** Wakes the loop no more. */
    public void close() throws IOException {
        wakeup.close();
    }

    @Override
    public void memberAdded(MembershipEvent event) {
        wake();
    }

    @Override
    public void memberRemoved(MembershipEvent event) {
        wake();
    }

    @Override
    public void entryAdded(EntryEvent<Object, Object> event) {
        wake();
    }

    @Override
    public void entryUpdated(EntryEvent<Object, Object> event) {
        wake();
    }

    @Override
    public void entryRemoved(EntryEvent<Object, Object> event) {
        wake();
    }

    private void wake() {
        try {
            wakeup.write(1);
        } catch (IOException error) {
            return; // closed: the node leaves
        }
    }
}
