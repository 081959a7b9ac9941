package kvwal.security;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Secret that the members and clients of a cluster share. It is never printed. */
final class Token {
    /** Bytes of a nonce, and of a proof. */
    static final int SIZE = 32;
    private static final String HMAC = "HmacSHA256";
    private static final String NAMED = "kvwal nonce";
    private static final SecureRandom RANDOM = new SecureRandom();

    private final byte[] secret;

    Token(byte[] secret) {
        this.secret = secret.clone();
    }

    /** Whether these bytes are the token. Every comparison takes the same time. */
    boolean is(byte[] told) {
        return MessageDigest.isEqual(secret, told);
    }

    static byte[] nonce() {
        return random(SIZE);
    }

    /**
     * Nonce of which a member with this token can tell that it was made with this token. To others it looks like any nonce.
     *
     * The second half signs the first half. A member of an earlier version makes and expects random bytes in both.
     */
    byte[] namedNonce() {
        byte[] made = Arrays.copyOf(random(SIZE / 2), SIZE);
        System.arraycopy(sign(NAMED, Arrays.copyOf(made, SIZE / 2)), 0, made, SIZE / 2, SIZE / 2);
        return made;
    }

    boolean isNamedBy(byte[] nonce) {
        byte[] signed = Arrays.copyOf(sign(NAMED, Arrays.copyOf(nonce, SIZE / 2)), SIZE / 2);
        return MessageDigest.isEqual(signed, Arrays.copyOfRange(nonce, SIZE / 2, SIZE));
    }

    /** Proof of knowing the token, as `role` of a connection with these two nonces. */
    byte[] proof(String role, byte[] asked, byte[] answered) {
        return sign(role, asked, answered);
    }

    private byte[] sign(String role, byte[]... parts) {
        try {
            Mac mac = Mac.getInstance(HMAC);
            mac.init(new SecretKeySpec(secret, HMAC));
            mac.update(role.getBytes(StandardCharsets.US_ASCII));
            for (byte[] part : parts) {
                mac.update(part);
            }
            return mac.doFinal();
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("this Java has no " + HMAC, error);
        }
    }

    private static byte[] random(int size) {
        byte[] made = new byte[size];
        RANDOM.nextBytes(made);
        return made;
    }

    @Override
    public String toString() {
        return "a token";
    }
}
