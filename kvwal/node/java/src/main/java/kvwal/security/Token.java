package kvwal.security;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Secret that the members and clients of a cluster share. It is never printed. */
public final class Token {
    /** Bytes of a nonce, and of a proof. */
    static final int SIZE = 32;
    private static final String HMAC = "HmacSHA256";
    private static final SecureRandom RANDOM = new SecureRandom();

    private final byte[] secret;

    public Token(byte[] secret) {
        this.secret = secret.clone();
    }

    /** Whether these bytes are the token. Every comparison takes the same time. */
    public boolean is(byte[] told) {
        return MessageDigest.isEqual(secret, told);
    }

    static byte[] nonce() {
        byte[] made = new byte[SIZE];
        RANDOM.nextBytes(made);
        return made;
    }

    /** Proof of knowing the token, as `role` of a connection with these two nonces. */
    byte[] proof(String role, byte[] asked, byte[] answered) {
        try {
            Mac mac = Mac.getInstance(HMAC);
            mac.init(new SecretKeySpec(secret, HMAC));
            mac.update(role.getBytes(StandardCharsets.US_ASCII));
            mac.update(asked);
            mac.update(answered);
            return mac.doFinal();
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException("this Java has no " + HMAC, error);
        }
    }

    @Override
    public String toString() {
        return "a token";
    }
}
