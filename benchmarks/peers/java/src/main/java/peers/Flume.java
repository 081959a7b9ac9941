package peers;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Map;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.flume.Context;
import org.apache.flume.Transaction;
import org.apache.flume.channel.file.FileChannel;
import org.apache.flume.event.EventBuilder;

/** Flume's file channel. It is a queue, so an entry is an event whose header has the key. */
final class Flume implements Peer {
    private static final int CAPACITY = 4_000_000;

    private final FileChannel channel = new FileChannel();

    Flume(File folder) {
        Context settings = new Context();
        settings.put("checkpointDir", new File(folder, "checkpoint").getAbsolutePath());
        settings.put("dataDirs", new File(folder, "data").getAbsolutePath());
        settings.put("capacity", Integer.toString(CAPACITY));
        settings.put("transactionCapacity", "10000");
        channel.setName("bench");
        channel.configure(settings);
        channel.start();
    }

    @Override
    public void put(int producer, List<Entry> entries) throws IOException {
        Transaction transaction = channel.getTransaction();
        transaction.begin();
        try {
            for (Entry entry : entries) {
                channel.put(EventBuilder.withBody(entry.value, Map.of("key", entry.key)));
            }
            transaction.commit();
        } catch (RuntimeException error) {
            transaction.rollback();
            throw error;
        } finally {
            transaction.close();
        }
    }

    @Override
    public void take(int many) throws IOException {
        Transaction transaction = channel.getTransaction();
        transaction.begin();
        try {
            for (int taken = 0; taken < many; taken++) {
                if (channel.take() == null) {
                    throw new IOException("the channel is empty");
                }
            }
            transaction.commit();
        } catch (RuntimeException | IOException error) {
            transaction.rollback();
            throw error;
        } finally {
            transaction.close();
        }
    }

    /** The replay is done by the time the channel has started; here its events are only counted. */
    @Override
    public long recover() throws IOException {
        try {
            ObjectName counter = new ObjectName("org.apache.flume.channel:type=bench");
            return (Long) ManagementFactory.getPlatformMBeanServer().getAttribute(counter, "ChannelSize");
        } catch (JMException error) {
            throw new IOException("Flume does not tell the size of its channel", error);
        }
    }

    @Override
    public void close() {
        channel.stop();
    }
}
