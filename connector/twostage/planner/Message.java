package twostage_planner;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What Java and Python send each other: an object whose public fields are the fields of a JSON object, under_limit for
 * underLimit. The classes are in Requests.java and Answers.java, and once more in Python (spark/requests.py,
 * spark/answers.py, handover/protocol.py); a test compares them. Both sides have exactly the same fields: one that is
 * missing, unknown, of another type, or null where that is not allowed, is an error.
 */
public abstract class Message {
  /** The fields of a class that may be null; a subclass has its own list. */
  public static final String[] NULLABLE = {};
  /** What `fields` found, by class: an answer may have thousands of messages in it. */
  private static final Map FIELDS = new ConcurrentHashMap();

  /** This message as plain maps and lists. */
  final Map toJson() {
    Map json = new LinkedHashMap();
    for (Iterator it = fields(getClass()).entrySet().iterator(); it.hasNext();) {
      Map.Entry field = (Map.Entry) it.next();
      Object value;
      try {
        value = ((Field) field.getValue()).get(this);
      } catch (IllegalAccessException error) {
        throw new IllegalStateException(error);
      }
      if (value == null) {
        checkNullable(getClass(), (Field) field.getValue());
      }
      json.put(field.getKey(), plain(value));
    }
    return json;
  }

  private static Object plain(Object value) {
    if (value instanceof Message) {
      return ((Message) value).toJson();
    }
    if (!(value instanceof Object[])) {
      return value;
    }
    List items = new ArrayList();
    Object[] given = (Object[]) value;
    for (int i = 0; i < given.length; i++) {
      items.add(plain(given[i]));
    }
    return items;
  }

  /** A message of this class, with the fields of a JSON object. */
  static Message read(Class type, Map json) {
    Message message;
    try {
      message = (Message) type.getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
    Map fields = fields(type);
    for (Iterator it = fields.entrySet().iterator(); it.hasNext();) {
      String name = (String) ((Map.Entry) it.next()).getKey();
      Field field = (Field) fields.get(name);
      Object value = json.get(name);
      if (value == null) {
        if (!json.containsKey(name)) {
          throw differs(place(type) + " lacks the field " + name);
        }
        checkNullable(type, field);
      }
      try {
        field.set(message, value(field.getType(), value, place(type) + "." + name));
      } catch (IllegalAccessException error) {
        throw new IllegalStateException(error);
      }
    }
    for (Iterator it = json.keySet().iterator(); it.hasNext();) {
      Object name = it.next();
      if (!fields.containsKey(name)) {
        throw differs(place(type) + " has an unknown field " + name);
      }
    }
    return message;
  }

  /** A JSON value as a field of this type holds it. */
  private static Object value(Class type, Object json, String place) {
    if (json == null && !type.isPrimitive()) {
      return null;
    }
    if (type.isArray() && json instanceof List) {
      List items = (List) json;
      Object array = Array.newInstance(type.getComponentType(), items.size());
      for (int i = 0; i < items.size(); i++) {
        Array.set(array, i, value(type.getComponentType(), items.get(i), place + "[" + i + "]"));
      }
      return array;
    }
    if (Message.class.isAssignableFrom(type) && json instanceof Map) {
      return read(type, (Map) json);
    }
    if (type == long.class && (json instanceof Integer || json instanceof Long)) {
      return Long.valueOf(((Number) json).longValue());
    }
    boolean fits = type == int.class && json instanceof Integer || type == boolean.class && json instanceof Boolean;
    if (!fits && !type.isInstance(json)) {
      throw differs(place + " is " + (json == null ? "null" : json.getClass().getSimpleName()) + ", not " + type.getSimpleName());
    }
    return json;
  }

  private static void checkNullable(Class type, Field field) {
    String[] nullable;
    try {
      nullable = (String[]) type.getField("NULLABLE").get(null);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
    if (!Arrays.asList(nullable).contains(field.getName())) {
      throw differs(place(type) + "." + snakeCase(field.getName()) + " is null");
    }
  }

  /** A class's fields by their names in JSON. */
  private static Map fields(Class type) {
    Map known = (Map) FIELDS.get(type);
    if (known == null) {
      known = new LinkedHashMap();
      Field[] fields = type.getFields();
      for (int i = 0; i < fields.length; i++) {
        if (!Modifier.isStatic(fields[i].getModifiers())) {
          known.put(snakeCase(fields[i].getName()), fields[i]);
        }
      }
      FIELDS.put(type, known);
    }
    return known;
  }

  static String snakeCase(String name) {
    return name.replaceAll("(?<=.)([A-Z])", "_$1").toLowerCase(Locale.ROOT);
  }

  /** Such as Answers.Load. */
  private static String place(Class type) {
    return type.getName().substring(type.getName().lastIndexOf('.') + 1).replace('$', '.');
  }

  private static IllegalStateException differs(String what) {
    return new IllegalStateException(
        "[TWOSTAGE.INTERNAL] The planner's Java and Python do not agree: " + what
            + ". Hint: They may come from different versions of twostage: restart the driver. Otherwise please report this.");
  }
}
