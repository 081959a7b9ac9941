package com.hazelcast.map.impl.operation;

import com.hazelcast.internal.serialization.Data;
import com.hazelcast.internal.serialization.impl.HeapData;
import com.hazelcast.spi.impl.operationservice.Operation;
import com.hazelcast.spi.impl.operationservice.impl.responses.NormalResponse;

/**
 * Response of a client's put or delete: the timestamp of the change in the log. It is the response itself, so it reaches the
 * member that serves the client from any owner of the key, also where the operation is sent again to the next owner.
 *
 * Members of an earlier version ignore the response of a put. They expect Hazelcast's Boolean of a delete: so only the deletes
 * that `delete` makes have this response. An owner of an earlier version answers as Hazelcast does, without a timestamp.
 *
 * In Hazelcast's package, because only there the value of a delete can be set.
 */
public final class TimestampResponse {
    /** Value of a delete that asks for this response. Every version sends the value of a delete, and no version reads it. */
    private static final Data ASKED = new HeapData(new byte[HeapData.HEAP_DATA_OVERHEAD]);

    private TimestampResponse() { }

    /** A delete that asks for this response. */
    public static DeleteOperation delete(String name, Data key) {
        DeleteOperation operation = new DeleteOperation(name, key, false);
        operation.dataValue = ASKED;
        return operation;
    }

    /** The response of an operation whose change is in the log with this timestamp: `response`, if it is of another kind. */
    public static Object of(Operation operation, Object response, long timestamp) {
        boolean isAsked = operation instanceof SetOperation
            || operation instanceof DeleteOperation delete && delete.dataValue != null;
        if (!isAsked) {
            return response;
        }
        if (response instanceof NormalResponse normal) {
            return new NormalResponse(told(normal.getValue(), timestamp), normal.getCallId(), normal.getBackupAcks(),
                normal.isUrgent());
        }
        return told(response, timestamp);
    }

    /** Negative if Hazelcast's response to a delete says that the key was absent. An error stays as it is. */
    private static Object told(Object value, long timestamp) {
        boolean isAnswer = value == null || value instanceof Boolean;
        if (!isAnswer) {
            return value;
        }
        return Boolean.FALSE.equals(value) ? -timestamp : timestamp;
    }

    /** The timestamp in a response; 0 if the owner did not tell it: it is of an earlier version. */
    public static long timestamp(Object response) {
        return response instanceof Long told ? Math.abs(told) : 0;
    }

    /** Whether the key of a delete was there. */
    public static boolean isDeleted(Object response) {
        return response instanceof Long told ? told > 0 : (Boolean) response;
    }
}
