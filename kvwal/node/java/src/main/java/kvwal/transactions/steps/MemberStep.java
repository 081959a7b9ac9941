package kvwal.transactions.steps;

import com.hazelcast.map.impl.MapService;
import com.hazelcast.nio.ObjectDataInput;
import com.hazelcast.nio.ObjectDataOutput;
import com.hazelcast.nio.serialization.IdentifiedDataSerializable;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.SelfResponseOperation;
import com.hazelcast.spi.impl.operationservice.impl.OperationServiceImpl;
import java.io.IOException;
import kvwal.node.TaskIds;

/** Operation that runs a task of a transaction on all keys that one member owns: one message, not one for each partition. */
public final class MemberStep extends Operation implements IdentifiedDataSerializable, SelfResponseOperation {
    private TransactionTask task;

    public MemberStep() { }

    MemberStep(TransactionTask task) {
        this.task = task;
    }

    @Override
    public void run() {
        OperationServiceImpl operations = (OperationServiceImpl) getNodeEngine().getOperationService();
        operations.getAsyncOperations().add(this); // Hazelcast tells the caller's member that it is still under way
        PartitionSteps.here(getNodeEngine(), task).whenComplete((answers, error) -> {
            operations.getAsyncOperations().remove(this);
            sendResponse(error == null ? answers : PartitionSteps.cause(error));
        });
    }

    @Override
    public boolean returnsResponse() {
        return false;
    }

    @Override
    public String getServiceName() {
        return MapService.SERVICE_NAME;
    }

    @Override
    public int getFactoryId() {
        return TaskIds.FACTORY;
    }

    @Override
    public int getClassId() {
        return TaskIds.MEMBER_STEP;
    }

    @Override
    protected void writeInternal(ObjectDataOutput out) throws IOException {
        super.writeInternal(out);
        out.writeObject(task);
    }

    @Override
    protected void readInternal(ObjectDataInput in) throws IOException {
        super.readInternal(in);
        task = in.readObject();
    }
}
