package kvwal.transactions;

import kvwal.node.TaskIds;

/** Task: the intent is finished. */
public final class ForgetIntent extends IntentTask implements Runnable {
    public ForgetIntent() { }

    public ForgetIntent(String intent) {
        this.intent = intent;
    }

    @Override
    public void run() {
        AppliedChanges.of(instance).forget(intent);
    }

    @Override
    public int getClassId() {
        return TaskIds.FORGET_INTENT;
    }
}
