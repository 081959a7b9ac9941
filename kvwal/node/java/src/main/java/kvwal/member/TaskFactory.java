package kvwal.member;

import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.core.HazelcastInstanceAware;
import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.serialization.impl.HeapData;
import com.hazelcast.map.EntryProcessor;
import com.hazelcast.map.ExtendedMapEntry;
import com.hazelcast.map.impl.LazyMapEntry;
import com.hazelcast.map.impl.operation.BulkEntryOperations;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.nio.serialization.DataSerializableFactory;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import kvwal.backups.BackupCheck;
import kvwal.clock.ClockBounds;
import kvwal.failover.FailoverBatch;
import kvwal.history.HistoryRequests;
import kvwal.quorum.Leases;
import kvwal.quorum.LinkMonitor;
import kvwal.transactions.AppliedChanges;
import kvwal.transactions.Transactions;

/** What is sent between members, and what kvwal's clients send, to be run where it arrives. */
public final class TaskFactory implements DataSerializableFactory {
    /** The factory, and the transaction in it, as kvwal/client knows them. */
    public static final int FACTORY = 27510;
    private static final int TRANSACTION = 1;
    private static final int APPLY = 2;
    private static final int TAKE_OVER = 3;
    private static final int FORGET = 4;
    private static final int TAKE_TURN = 5;
    public static final int TELL = 6;
    public static final int ASK = 7;
    public static final int RENEW = 8;
    public static final int LEFT = 9;
    /** As kvwal/client knows it, too. */
    public static final int QUESTION = 10;
    public static final int OF_KEYS = 11;
    public static final int OF_ALL = 12;
    public static final int OF_MATCHES = 13;
    public static final int PEER_QUESTION = 20;
    public static final int HEAR = 21;
    public static final int BACKUP_CHECK = 22;

    /** Whether a client may send it; the others are for members among themselves. */
    public static boolean isOfClients(int number) {
        return number == TRANSACTION || number == QUESTION;
    }

    @Override
    public IdentifiedDataSerializable create(int number) {
        switch (number) {
            case TRANSACTION: return new Transaction();
            case APPLY: return new Apply();
            case TAKE_OVER: return new TakeOver();
            case FORGET: return new Forget();
            case TAKE_TURN: return new TakeTurn();
            case TELL: return new ClockBounds.Tell();
            case ASK: return new ClockBounds.Ask();
            case RENEW: return new Leases.Renew();
            case LEFT: return new Leases.Left();
            case QUESTION: return new HistoryRequests.Ask();
            case OF_KEYS: return new BulkEntryOperations.OnKeys();
            case OF_ALL: return new BulkEntryOperations.OnAll();
            case OF_MATCHES: return new BulkEntryOperations.OnMatches();
            case PEER_QUESTION: return new HistoryRequests.AskPeer();
            case HEAR: return new LinkMonitor.Hear();
            case BACKUP_CHECK: return new BackupCheck();
            default: throw new IllegalArgumentException("there is no task " + number);
        }
    }

    /** Something of ours, which is told where it runs. */
    public abstract static class Task implements IdentifiedDataSerializable, HazelcastInstanceAware {
        public transient HazelcastInstance instance;

        @Override
        public void setHazelcastInstance(HazelcastInstance here) {
            instance = here;
        }

        @Override
        public int getFactoryId() {
            return FACTORY;
        }

        Transactions intents() {
            return Transactions.of(instance);
        }
    }

    /** From a client: its changes of a map, all or none. */
    static final class Transaction extends Task implements Callable<Boolean> {
        private String id;
        private String map;
        private byte[] changes;

        @Override
        public Boolean call() {
            intents().run(instance, id, map, changes);
            return true;
        }

        @Override
        public int getClassId() {
            return TRANSACTION;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeString(id);
            out.writeString(map);
            out.writeByteArray(changes);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            id = in.readString();
            map = in.readString();
            changes = in.readByteArray();
        }
    }

    /** One change of an intent, where its key is: answers false if it is no longer for its sender to apply it. */
    public static final class Apply extends Task implements EntryProcessor<Object, Object, Boolean> {
        private String intent;
        private String expander;
        private int change;
        private Data value;
        private long expires;
        private boolean isBackup;
        private transient boolean begun;
        private transient Data key;

        public Apply() { }

        public Apply(String intent, String expander, int change, Data value, long expires) {
            this.intent = intent;
            this.expander = expander;
            this.change = change;
            this.value = value;
            this.expires = expires;
        }

        @Override
        public Boolean process(Map.Entry<Object, Object> found) {
            LazyMapEntry<Object, Object> entry = (LazyMapEntry<Object, Object>) found;
            key = entry.getKeyData();
            AppliedChanges applied = intents().applied();
            if (isBackup) {
                applied.done(intent, expander, change, key);
                set(entry);
                return true;
            }
            AppliedChanges.Outcome turn = applied.begin(intent, expander, change, key);
            begun = turn == AppliedChanges.Outcome.BEGUN;
            if (begun && !(value == null && entry.hasNullValue())) {
                set(entry);
            }
            return turn != AppliedChanges.Outcome.TAKEN_OVER;
        }

        private void set(ExtendedMapEntry<Object, Object> entry) {
            if (value == null || expires == 0) {
                entry.setValue(value, 0, TimeUnit.MILLISECONDS);
            } else {
                entry.setValue(value, Math.max(1, expires - System.currentTimeMillis()), TimeUnit.MILLISECONDS);
            }
        }

        /** Hazelcast asks when the change is in the owner's memory: a backup follows it, and does nothing by itself. */
        @Override
        public EntryProcessor<Object, Object, Boolean> getBackupProcessor() {
            if (!begun) {
                return null;
            }
            intents().applied().done(intent, expander, change, key);
            Apply backup = new Apply(intent, expander, change, value, expires);
            backup.isBackup = true;
            return backup;
        }

        @Override
        public int getClassId() {
            return APPLY;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeString(intent);
            out.writeString(expander);
            out.writeInt(change);
            out.writeByteArray(value == null ? null : value.toByteArray());
            out.writeLong(expires);
            out.writeBoolean(isBackup);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            intent = in.readString();
            expander = in.readString();
            change = in.readInt();
            byte[] bytes = in.readByteArray();
            value = bytes == null ? null : new HeapData(bytes);
            expires = in.readLong();
            isBackup = in.readBoolean();
        }
    }

    /** Of an intent, by its key. */
    private abstract static class OfIntent extends Task {
        String intent;

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeString(intent);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            intent = in.readString();
        }
    }

    /** Another member applies the intent from now on: answers with what is applied, null while that cannot be said. */
    public static final class TakeOver extends OfIntent implements Callable<byte[]> {
        private String expander;

        public TakeOver() { }

        public TakeOver(String intent, String expander) {
            this.intent = intent;
            this.expander = expander;
        }

        @Override
        public byte[] call() {
            return intents().applied().takeOver(intent, expander);
        }

        @Override
        public int getClassId() {
            return TAKE_OVER;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            super.writeData(out);
            out.writeString(expander);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            super.readData(in);
            expander = in.readString();
        }
    }

    /** The intent is finished. */
    public static final class Forget extends OfIntent implements Runnable {
        public Forget() { }

        public Forget(String intent) {
            this.intent = intent;
        }

        @Override
        public void run() {
            intents().applied().forget(intent);
        }

        @Override
        public int getClassId() {
            return FORGET;
        }
    }

    /** Where nothing else changes a partition of a map: see FailoverBatch. MemberQuery false if that is no longer at the member that sent it. */
    public static final class TakeTurn extends Task implements EntryProcessor<Object, Object, Boolean> {
        private String member;
        private long number;

        public TakeTurn() { }

        public TakeTurn(String member, long number) {
            this.member = member;
            this.number = number;
        }

        @Override
        public Boolean process(Map.Entry<Object, Object> found) {
            FailoverBatch turn = intents().turns().get(number);
            if (turn == null || !instance.getCluster().getLocalMember().getUuid().toString().equals(member)) {
                return false;
            }
            turn.take();
            return true;
        }

        /** Nothing is changed. */
        @Override
        public EntryProcessor<Object, Object, Boolean> getBackupProcessor() {
            return null;
        }

        @Override
        public int getClassId() {
            return TAKE_TURN;
        }

        @Override
        public void writeData(ObjectDataOutput out) throws IOException {
            out.writeString(member);
            out.writeLong(number);
        }

        @Override
        public void readData(ObjectDataInput in) throws IOException {
            member = in.readString();
            number = in.readLong();
        }
    }
}
