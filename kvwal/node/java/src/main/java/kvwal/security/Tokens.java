package kvwal.security;

import java.security.MessageDigest;
import java.util.List;
import java.util.stream.Stream;

/**
 * Tokens of a cluster as a member accepts them: one, or two while the cluster's token is changed. They may change at any time,
 * and count for connections that begin afterwards. They are never printed.
 */
public final class Tokens {
    private volatile List<Token> accepted;

    /** `shown` is the token of this member, `other` one more that it accepts; null if there is none. */
    public Tokens(byte[] shown, byte[] other) {
        change(shown, other);
    }

    /** Replace all tokens. */
    public void change(byte[] shown, byte[] other) {
        accepted = Stream.of(shown, other).filter(secret -> secret != null).map(Token::new).toList();
    }

    /** Whether these bytes are one of the tokens. The time does not depend on which one it is. */
    public boolean accept(byte[] told) {
        boolean known = false;
        for (Token token : accepted) {
            known |= token.is(told);
        }
        return known;
    }

    Token shown() {
        return accepted.get(0);
    }

    /** The token that a nonce was made with, as far as it is one of these; else the one that this member shows. */
    Token namedBy(byte[] nonce) {
        List<Token> now = accepted;
        return now.stream().filter(token -> token.isNamedBy(nonce)).findFirst().orElse(now.get(0));
    }

    /** The token with which `role` made this proof; null if it is none of these. */
    Token provedBy(byte[] proof, String role, byte[] asked, byte[] answered) {
        Token found = null;
        for (Token token : accepted) {
            if (MessageDigest.isEqual(token.proof(role, asked, answered), proof)) {
                found = token;
            }
        }
        return found;
    }

    @Override
    public String toString() {
        return "tokens";
    }
}
